import { CllmError } from '@cllm/core'
import { refusing } from '../../request/refusals.js'
import { requestScope } from '../../security/authenticate.js'
import type { BatchRunner } from './batch-runner.js'
import type { BatchKind, BatchStore } from './batch-store.js'
import { type Kept, type Owner, type BatchObject, newId } from './batch-objects.js'
import { z } from 'zod'
import { get, post } from '../../routes/route.js'
import type { Answer, Call, CallOf, QueryCallOf, Route } from '../../routes/route.js'
import { integer } from '../../fields/fields.js'
import { messagesEndpoint } from './batch-lines.js'
import { pageOf, secondsNow } from '../openai/openai-answer.js'

/** The context of the handlers of files and batches. */
export interface BatchesContext {
  readonly store: BatchStore
  readonly runner: BatchRunner
  /** The largest size of an uploaded file in bytes. */
  readonly fileLimitBytes: number
}

/** The request's key, to be stored as the owner of a new file or batch. */
export function askingOwner(): { readonly owner?: Owner } {
  const key = requestScope.getStore()?.key
  if (key === undefined) return {}
  const { name, tenant, hash } = key
  return { owner: { name, tenant, hash } }
}

/** Whether the request may see a file or a batch: other tenants' do not exist for it. */
export function maySee({ owner }: Kept<unknown>): boolean {
  const key = requestScope.getStore()?.key
  return key === undefined || key.role === 'admin' || key.tenant === owner?.tenant
}

/** A file or a batch that the request may see. @throws `not_found` */
export async function find<K extends BatchKind>(store: BatchStore, kind: K, id: string) {
  const kept = await store.get(kind, id)
  if (kept !== undefined && maySee(kept)) return kept
  const message = `There is no ${kind === 'files' ? 'file' : 'batch'} "${id.slice(0, 64)}"`
  throw new CllmError('not_found', message, { details: { id } })
}

const windowSeconds = 24 * 60 * 60

const refused = refusing({
  output_expires_after: [z.unknown(), 'files stay until they are deleted', null],
})

const createSchema = z.object({
  input_file_id: z.string(),
  endpoint: z.enum(['/v1/chat/completions', '/v1/completions', '/v1/embeddings', '/v1/responses']),
  completion_window: z.literal('24h').default('24h'),
  metadata: z.record(z.string(), z.string()).optional(),
  ...refused.fields,
})

const querySchema = z.object({
  after: z.string().optional(),
  limit: z.preprocess(Number, integer(1, 100)).default(20),
})

/** OpenAI's routes of batches. */
export const batchRoutes: readonly Route<BatchesContext>[] = [
  post('/v1/batches', 'user', 'Compute the requests of a file when nobody else waits', create, {
    body: createSchema,
  }),
  get('/v1/batches', 'user', 'The batches, the newest first', listed, { query: querySchema }),
  get('/v1/batches/:id', 'user', 'One batch, with its progress', async (call, { store, runner }) =>
    runner.live((await find(store, 'batches', call.params['id'] ?? '')).object),
  ),
  post('/v1/batches/:id/cancel', 'user', 'Cancel a batch; its answers so far stay', cancel),
]

async function listed(call: QueryCallOf<typeof querySchema>, { store, runner }: BatchesContext) {
  const batches = (await store.list('batches')).filter(
    (one) => maySee(one) && one.object.endpoint !== messagesEndpoint,
  )
  const shown = batches.map(async ({ object }) => await runner.live(object))
  return pageOf(await Promise.all(shown), call.query)
}

async function create(call: CallOf<typeof createSchema>, batches: BatchesContext): Promise<Answer> {
  const { fields } = call
  refused.check(fields)
  const { endpoint, completion_window, metadata = null, input_file_id } = fields
  const batch = newBatch(call, { endpoint, completion_window, metadata, input_file_id })
  await find(batches.store, 'files', input_file_id)
  await begin(batch, batches)
  return batch
}

/** Stores a new batch, and runs it. @throws `not_found` if its file was deleted meanwhile */
export async function begin(batch: BatchObject, { store, runner }: BatchesContext): Promise<void> {
  const { id, input_file_id: file } = batch
  await store.put('batches', { ...askingOwner(), object: batch })
  // Deleting a file, on any server, removes its record and then looks for batches: one of the two sees the other.
  if ((await store.get('files', file)) !== undefined) return await runner.start(id)
  await store.remove(id)
  throw new CllmError('not_found', `The file "${file}" was deleted meanwhile`)
}

/** A new batch, which is to be checked and then computed. */
export function newBatch(
  { clock, random }: Pick<Call, 'clock' | 'random'>,
  given: Pick<BatchObject, 'endpoint' | 'input_file_id'> & Partial<BatchObject>,
): BatchObject {
  const created = secondsNow({ clock })
  return {
    id: newId('batch_', random),
    object: 'batch',
    errors: null,
    completion_window: '24h',
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
    metadata: null,
    ...given,
  }
}

async function cancel(call: Call, { store, runner }: BatchesContext): Promise<Answer> {
  const { object: batch } = await find(store, 'batches', call.params['id'] ?? '')
  const { id } = batch
  const cancelled = await runner.cancel(id)
  if (cancelled?.wasUnderWay !== true) {
    const { status } = cancelled?.batch ?? batch
    throw new CllmError('invalid_request', `The batch ${id} is ${status} and cannot be cancelled`)
  }
  return await runner.live(cancelled.batch)
}
