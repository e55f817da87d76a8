import { CllmError } from '@cllm/core'
import { z } from 'zod'
import { readFields } from '../../fields/read-fields.js'
import { readQuery } from '../../fields/read-query.js'
import type { HandledRoute } from '../../routes/api-route.js'
import type { KoaContext } from '../../routes/koa-context.js'
import type { BatchObject } from './batch-objects.js'
import { newId } from './batch-runner.js'
import { cancelBatch } from './cancel-batch.js'
import {
  askingOwner,
  type BatchesContext,
  findBatch,
  findFile,
  maySee,
  pageOf,
} from './batches-context.js'

const windowSeconds = 24 * 60 * 60

const createSchema = z.object({
  input_file_id: z.string(),
  endpoint: z.enum(['/v1/chat/completions', '/v1/completions', '/v1/embeddings', '/v1/responses']),
  completion_window: z.literal('24h').default('24h'),
  metadata: z.record(z.string(), z.string()).optional(),
})

const querySchema = z.object({
  after: z.string().optional(),
  limit: z.coerce.number().int().min(1).max(100).default(20),
})

/** OpenAI's routes of batches. */
export const batchRoutes: readonly HandledRoute<BatchesContext>[] = [
  {
    method: 'post',
    path: '/v1/batches',
    summary: 'Compute the requests of a file when nobody else is waiting',
    body: createSchema,
    handle: create,
  },
  {
    method: 'get',
    path: '/v1/batches',
    summary: 'The batches, the newest first',
    query: querySchema,
    async handle(ctx, { store, jobs }) {
      const page = readQuery(ctx, querySchema)
      const batches = (await store.list('batches')).filter(maySee)
      ctx.body = pageOf(
        await Promise.all(batches.map(async ({ object }) => await jobs.live(object))),
        page,
      )
    },
  },
  {
    method: 'get',
    path: '/v1/batches/:id',
    summary: 'One batch, and how far it is',
    async handle(ctx, { store, jobs }) {
      ctx.body = await jobs.live((await findBatch(store, ctx.params['id'] ?? '')).object)
    },
  },
  {
    method: 'post',
    path: '/v1/batches/:id/cancel',
    summary: 'End a batch; what is answered stays',
    handle: cancel,
  },
]

async function create(ctx: KoaContext, batches: BatchesContext): Promise<void> {
  const { store, jobs, unknownFields } = batches
  const fields = await readFields(ctx, createSchema, unknownFields)
  const { object: file } = await findFile(store, fields.input_file_id)
  const { clock, random } = ctx.state.transport
  const created = Math.floor(clock.now() / 1000)
  const batch: BatchObject = {
    id: newId('batch_', random),
    object: 'batch',
    endpoint: fields.endpoint,
    errors: null,
    input_file_id: file.id,
    completion_window: fields.completion_window,
    status: 'validating',
    output_file_id: null,
    error_file_id: null,
    created_at: created,
    expires_at: created + windowSeconds,
    in_progress_at: null,
    finalizing_at: null,
    completed_at: null,
    failed_at: null,
    expired_at: null,
    cancelling_at: null,
    cancelled_at: null,
    request_counts: { total: 0, completed: 0, failed: 0 },
    metadata: fields.metadata ?? null,
  }
  await store.put('batches', { ...askingOwner(), object: batch })
  await jobs.start(batch.id)
  ctx.body = batch
}

async function cancel(ctx: KoaContext, { store, jobs }: BatchesContext): Promise<void> {
  const { object: batch } = await findBatch(store, ctx.params['id'] ?? '')
  const { id } = batch
  const { clock } = ctx.state.transport
  const cancelled = await cancelBatch(id, { store, jobs, clock })
  if (cancelled?.wasUnderWay !== true) {
    const { status } = cancelled?.batch ?? batch
    throw new CllmError('invalid_request', `The batch ${id} is ${status} and cannot be cancelled`)
  }
  ctx.body = await jobs.live(cancelled.batch)
}
