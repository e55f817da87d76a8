import { z } from 'zod'
import { type Clock, CllmError, type EngineDirectory, type Random, type Services } from '@cllm/core'
import type { BatchError, BatchObject, Kept, Owner } from './batch-objects.js'
import type { BatchStore, NumberedBatchLine, PlacedLine } from './batch-store.js'
import { checkExtent, defaultJsonDepth } from '../../body/read-body.js'
import { errorHeaders, publicError } from '../../errors/error-body.js'
import { UnknownFields } from '../../fields/fields.js'
import type { Call, IncomingBody } from '../../routes/route.js'
import { checkFields, openModel } from '../../routes/driver.js'
import type { KoaProtocol } from '../../routes/koa-context.js'
import { RouteTable } from '../../routes/route-table.js'
import { secondsNow } from '../openai/openai-answer.js'
import { requestScope } from '../../security/authenticate.js'
import type { KeyAccess } from '../../security/api-key.js'

/** The endpoint of all lines of Anthropic's batches. */
export const messagesEndpoint = '/v1/messages'

/** The most lines of an input file, which is OpenAI's limit. */
const mostLines = 50_000
/** The most errors that are reported. */
const mostErrors = 100

const lineSchema = z.object({
  custom_id: z.string().min(1).max(512),
  method: z.literal('POST'),
  url: z.string(),
  body: z.record(z.string(), z.unknown()),
})

/** Parses a line. Throws an error whose message says what is wrong. */
export function parseLine(text: string, endpoint: string): BatchLine {
  // Windows programs begin files with a byte-order mark
  const line = lineSchema.safeParse(JSON.parse(text.replace(/^\ufeff/, '')))
  if (!line.success) {
    const [issue] = line.error.issues
    throw new Error(`${issue?.path.join('.') || 'the line'}: ${issue?.message}`)
  }
  const { url, body } = line.data
  if (url !== endpoint) throw new Error(`url: expected the batch's ${endpoint}, got ${url}`)
  if (body['stream'] === true) throw new Error('body.stream: a batch has no streams')
  return line.data
}

/**
 * Checks a new batch's lines and stores the result. Repeated after a crash, it changes nothing.
 *
 * @returns the batch afterwards; undefined if there is no such batch, or its lines are wrong
 */
export async function checkBatch(
  id: string,
  { store, clock }: { readonly store: BatchStore; readonly clock: Clock },
): Promise<Kept<BatchObject> | undefined> {
  const kept = await store.get('batches', id)
  if (kept === undefined || kept.object.status !== 'validating') return kept
  const { input_file_id: input, endpoint } = kept.object
  const { total, errors } = await checkLines(store.lines(input), endpoint)
  const now = secondsNow({ clock })
  const counts = { total, completed: 0, failed: 0 }
  const change: Partial<BatchObject> =
    errors.length > 0
      ? { status: 'failed', failed_at: now, errors: { object: 'list', data: errors } }
      : { status: 'in_progress', in_progress_at: now, request_counts: counts }
  // It may have been cancelled meanwhile.
  const isNew = ({ status }: BatchObject) => status === 'validating'
  const changed = await store.update(id, (batch) => (isNew(batch) ? change : undefined))
  return changed?.object.status === 'failed' ? undefined : changed
}

/** The number of lines, and their errors. */
async function checkLines(lines: AsyncIterable<PlacedLine>, endpoint: string) {
  const ids = new Set<string>()
  const errors: BatchError[] = []
  let total = 0
  const fail = (message: string, line: number | null, param: string | null = null) =>
    errors.push({ code: 'invalid_request', message, line, param })
  for await (const { line, text } of lines) {
    total++
    try {
      // the body within the line may be as deep as that of any request
      checkExtent(text, defaultJsonDepth + 1)
      const { custom_id: id } = parseLine(text, endpoint)
      if (ids.has(id))
        fail(`custom_id "${id.slice(0, 64)}" is in an earlier line, too`, line, 'custom_id')
      ids.add(id)
    } catch (error) {
      fail((error as Error).message, line)
    }
    if (errors.length === mostErrors) break
  }
  if (total === 0) fail('The file has no lines', null, 'input_file_id')
  if (total > mostLines) fail(`Expected at most ${mostLines} lines, got ${total}`, null)
  return { total, errors }
}

/** Statuses of a server that is busy, stopping, or without an engine: the line is retried. */
const busy: ReadonlySet<number> = new Set([429, 499, 502, 503])
/** Seconds before a retry without a `Retry-After`. */
const someSeconds = 1
/** The longest wait for a retry in seconds, as the key's limits may be raised meanwhile. */
const mostSeconds = 60

/** The request in a line of a batch. */
export type BatchLine = Omit<NumberedBatchLine, 'line'>

/** The answer to a line, as a client would get it. */
export interface LineAnswer {
  /** 401 if the key that created the batch is no longer valid. */
  readonly status: number
  readonly body: unknown
  /** Seconds before a retry, if the server could not answer now. */
  readonly retryAfter: number | undefined
}

/** Sends a line's request on behalf of its owner, with these seeds. Rejects when the signal fires. */
export type SendLine = (
  line: BatchLine,
  owner: Owner | undefined,
  signal: AbortSignal,
  seeds: Random,
) => Promise<LineAnswer>

/**
 * Answers lines by the protocols' own routes, without a connection. Lines count towards the limits that the
 * owner's key has at the time.
 *
 * @param enginesOf - makes the engines of a line, which draw its requests' seeds from `seeds`
 * @param access - the keys; undefined on servers without keys
 */
export function lineSender(
  protocols: readonly KoaProtocol[],
  enginesOf: (seeds: Random) => EngineDirectory,
  services: Services,
  access: KeyAccess | undefined,
): SendLine {
  const table = new RouteTable(protocols)
  const unknown = new UnknownFields()
  const ask: SendLine = async ({ url, body }, owner, signal, seeds) => {
    const { routes, errors } = table.match('POST', url)
    try {
      const key = requestScope.getStore()?.key
      if (key !== undefined) await access?.limit(key)
      const [found] = routes
      if (found === undefined) throw new CllmError('not_found', `There is nothing at ${url}`)
      const { route, params } = found
      const fields = checkFields(route, body, unknown, services.logger)
      const asking = { path: url, fields, params, keyName: owner?.name, signal }
      const call = lineCall(enginesOf(seeds), services, asking)
      return { status: 200, body: await route.handle(call, route.own), retryAfter: undefined }
    } catch (error) {
      signal.throwIfAborted()
      const shown = publicError(error, services.logger)
      const status = errors.status?.(shown) ?? shown.status
      const seconds = Number(errorHeaders(shown)['Retry-After'] ?? someSeconds)
      const retryAfter = busy.has(status) ? Math.min(seconds, mostSeconds) : undefined
      return { status, body: errors.body(shown), retryAfter }
    }
  }
  return async (line, owner, signal, seeds) => {
    const key = owner && (access === undefined ? owner : await access.keys.withHash(owner.hash))
    if (owner !== undefined && key === undefined) return keyIsGone
    if (key === undefined) return await ask(line, owner, signal, seeds)
    const scope = { key: { ...key, role: 'user' } } as const
    return await requestScope.run(scope, async () => await ask(line, owner, signal, seeds))
  }
}

const keyIsGone: LineAnswer = { status: 401, body: null, retryAfter: undefined }

/** A line as a handler sees it: a request without headers, whose answer is not streamed. */
const lineCall = (
  engines: EngineDirectory,
  { clock, random, logger }: Services,
  asking: Pick<Call, 'path' | 'fields' | 'params' | 'keyName' | 'signal'>,
): Call => ({
  ...asking,
  engines,
  clock,
  random,
  logger,
  query: {},
  id: undefined,
  streams: undefined,
  takesGzip: false,
  open: (model) => openModel(engines, model, { until: asking.signal }),
  header: () => '',
  set() {},
  accepts: (type = '') => type,
  get body(): IncomingBody {
    throw new Error('a line has its fields only')
  },
})
