import { Readable } from 'node:stream'
import { CllmError } from '@cllm/core'
import { z } from 'zod'
import { integer, list, object } from '../../fields/fields.js'
import { invalidField } from '../../request/refusals.js'
import { Reply, del, get, post } from '../../routes/route.js'
import type { Answer, Call, CallOf, QueryCallOf, Route } from '../../routes/route.js'
import { anthropicErrorBody, anthropicErrors } from '../anthropic/anthropic-answer.js'
import { askingOwner, find, maySee, begin, newBatch } from './batch-routes.js'
import { partOf, placeOf } from '../openai/openai-answer.js'
import type { BatchesContext } from './batch-routes.js'
import { isUnderWay, newFile, newId, outputIds, timeOf } from './batch-objects.js'
import type { BatchObject, Kept } from './batch-objects.js'
import { messagesEndpoint } from './batch-lines.js'
import type { BatchStore } from './batch-store.js'

const createSchema = z.object({
  requests: list(
    z.object(
      {
        custom_id: z.string('a text').regex(/^[\w-]{1,64}$/, '1 to 64 letters, digits, _ or -'),
        params: object,
      },
      'a request with custom_id and params',
    ),
    'an array of requests',
    { least: [1, 'an array of at least one request'], most: [50_000, 'at most 50000 requests'] },
  ),
})

const querySchema = z.object({
  before_id: z.string().optional(),
  after_id: z.string().optional(),
  limit: z.preprocess(Number, integer(1, 1000)).default(20),
})

const path = `${messagesEndpoint}/batches`

/** Anthropic's routes of batches: the same batches as OpenAI's, with lines for `/v1/messages`. */
const routes: readonly Route<BatchesContext>[] = [
  post(
    path,
    'user',
    'Answer conversations when nobody else is waiting, in the format of Anthropic',
    create,
    { body: createSchema },
  ),
  get(path, 'user', "Anthropic's batches, the newest first", listed, { query: querySchema }),
  get(
    `${path}/:id`,
    'user',
    'One batch of messages, with its progress',
    async (call, { store, runner }) => shown(await runner.live((await found(call, store)).object)),
  ),
  get(`${path}/:id/results`, 'user', 'The result of each request', results, {
    answers: ['application/x-jsonl'],
  }),
  post(
    `${path}/:id/cancel`,
    'user',
    'Cancel a batch of messages; its answers so far stay',
    async (call, { store, runner }) => {
      const { object: batch } = await found(call, store)
      const cancelled = await runner.cancel(batch.id)
      return shown(await runner.live(cancelled?.batch ?? batch))
    },
  ),
  del(`${path}/:id`, 'user', 'Delete an ended batch of messages', remove),
]

/** The same routes with errors in Anthropic's format. */
export const messageBatchRoutes = routes.map((route) => ({ ...route, errors: anthropicErrors }))

async function create(call: CallOf<typeof createSchema>, batches: BatchesContext): Promise<Answer> {
  const { requests } = call.fields
  const ids = new Set<string>()
  for (const [index, { custom_id: id, params }] of requests.entries()) {
    const field = `requests.${index}`
    if (ids.has(id))
      throw invalidField(`${field}.custom_id`, `"${id}" is that of an earlier request, too`)
    ids.add(id)
    if (params['stream'] === true)
      throw invalidField(`${field}.params.stream`, 'a batch has no streams')
  }
  const lines = requests.map(({ custom_id, params: body }) =>
    JSON.stringify({ custom_id, method: 'POST', url: messagesEndpoint, body }),
  )
  const content = Buffer.from(`${lines.join('\n')}\n`)
  const input = newId('file-', call.random)
  const batch = newBatch(call, {
    endpoint: messagesEndpoint,
    input_file_id: input,
    request_counts: { total: requests.length, completed: 0, failed: 0 },
  })
  const file = newFile(call, `${batch.id}_input.jsonl`, content.length, { id: input })
  await batches.store.create({ ...askingOwner(), object: file }, content)
  await begin(batch, batches)
  return shown(batch)
}

async function listed(
  { query }: QueryCallOf<typeof querySchema>,
  { store, runner }: BatchesContext,
): Promise<Answer> {
  const { before_id: before, after_id: after, limit } = query
  const all = (await store.list('batches'))
    .filter((one) => isOfMessages(one) && maySee(one))
    .map(({ object }) => object)
  const place = (id: string, field: string): number => placeOf(all, ownId(id), field, id)
  const end = before === undefined ? all.length : place(before, 'before_id')
  const begin = after === undefined ? 0 : place(after, 'after_id') + 1
  // With `before_id`, the page ends right before it.
  const from = before === undefined ? begin : Math.max(begin, end - limit)
  const page = all.slice(from, Math.min(end, from + limit))
  const data = await Promise.all(page.map(async (batch) => shown(await runner.live(batch))))
  return partOf(data, before === undefined ? from + limit < end : from > begin)
}

async function results(call: Call, { store }: BatchesContext): Promise<Answer> {
  const { object: batch } = await found(call, store)
  if (isUnderWay(batch)) {
    throw new CllmError('not_found', `The batch ${shownId(batch)} has not ended: no results yet`)
  }
  const { request_counts: counts, input_file_id: asked } = batch
  const isWhole = counts.completed + counts.failed >= counts.total
  // Any of these files may have been deleted, which must be found out before the answer begins.
  for (const file of [batch.output_file_id, batch.error_file_id, isWhole ? null : asked]) {
    if (file !== null) await find(store, 'files', file)
  }
  return new Reply(Readable.from(resultsOf(batch, store)), { type: 'application/x-jsonl' })
}

interface AnsweredLine {
  readonly custom_id: string
  readonly response: { readonly body: { readonly type?: string } }
}

/** One line per request: first the answered ones, then those that the batch ended without. */
async function* resultsOf(batch: BatchObject, store: BatchStore): AsyncGenerator<string> {
  const answered = new Set<string>()
  const line = (custom_id: string, result: object): string =>
    `${JSON.stringify({ custom_id, result })}\n`
  for (const file of [batch.output_file_id, batch.error_file_id]) {
    if (file === null) continue
    for await (const { text } of store.lines(file)) {
      const { custom_id: id, response } = JSON.parse(text) as AnsweredLine
      const { body } = response
      answered.add(id)
      if (file === batch.output_file_id) yield line(id, { type: 'succeeded', message: body })
      else yield line(id, { type: 'errored', error: body.type === 'error' ? body : failed })
    }
  }
  if (answered.size >= batch.request_counts.total) return
  const type = batch.status === 'expired' ? 'expired' : 'canceled'
  for await (const { text } of store.lines(batch.input_file_id)) {
    const { custom_id: id } = JSON.parse(text) as AnsweredLine
    if (!answered.has(id)) yield line(id, { type })
  }
}

/** The error for requests that failed before they had a format: their stored answer is not in Anthropic's. */
const failed = anthropicErrorBody(new CllmError('internal', 'The request could not be answered'))

async function remove(call: Call, { store }: BatchesContext): Promise<Answer> {
  const { object: batch } = await found(call, store)
  const id = shownId(batch)
  if (isUnderWay(batch)) {
    throw new CllmError('invalid_request', `The batch ${id} has not ended; cancel it first`)
  }
  for (const file of [batch.input_file_id, ...Object.values(outputIds(batch.id))]) {
    await store.remove(file)
  }
  await store.remove(batch.id)
  return { id, type: 'message_batch_deleted' }
}

/** A batch in Anthropic's format. */
function shown(batch: BatchObject) {
  const { status, request_counts: counts, created_at, expires_at, cancelling_at } = batch
  const ends = [batch.completed_at, batch.cancelled_at, batch.expired_at, batch.failed_at]
  const hasEnded = !isUnderWay(batch)
  const left = counts.total - counts.completed - counts.failed
  return {
    id: shownId(batch),
    type: 'message_batch',
    processing_status: hasEnded ? 'ended' : status === 'cancelling' ? 'canceling' : 'in_progress',
    request_counts: {
      processing: hasEnded ? 0 : left,
      succeeded: counts.completed,
      errored: counts.failed,
      canceled: hasEnded && status !== 'expired' ? left : 0,
      expired: status === 'expired' ? left : 0,
    },
    created_at: timeOf(created_at),
    expires_at: timeOf(expires_at),
    ended_at: hasEnded ? timeOf(ends.find((time) => time !== null) ?? null) : null,
    cancel_initiated_at: timeOf(cancelling_at),
    archived_at: null,
    // A path, as the server does not know the address under which clients reach it.
    results_url: hasEnded ? `${path}/${shownId(batch)}/results` : null,
  }
}

const shownId = ({ id }: BatchObject): string => `msg${id}`
const ownId = (id: string): string => id.replace(/^msg/, '')

const isOfMessages = ({ object }: Kept<BatchObject>): boolean =>
  object.endpoint === messagesEndpoint

/** @throws `not_found` */
async function found({ params }: Call, store: BatchStore): Promise<Kept<BatchObject>> {
  const { id = '' } = params
  const kept = await store.get('batches', ownId(id))
  if (kept !== undefined && maySee(kept) && isOfMessages(kept)) return kept
  throw new CllmError('not_found', `There is no batch "${id.slice(0, 64)}"`)
}
