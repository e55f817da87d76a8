import { z } from 'zod'
import type { Clock } from '@cllm/core'
import type { BatchError, BatchObject, Kept } from '../batch-objects.js'
import type { BatchStore } from '../batch-store.js'
import type { BatchLine } from './line-sender.js'

/** Of the lines of Anthropic's batches. */
export const messagesEndpoint = '/v1/messages'

/** Lines of an input file at most, as OpenAI has it. */
const mostLines = 50_000
/** Errors that are told at most. */
const mostErrors = 100

const lineSchema = z.object({
  custom_id: z.string().min(1).max(512),
  method: z.literal('POST'),
  url: z.string(),
  body: z.record(z.string(), z.unknown()),
})

/** The line in a text. Throws an error whose message says what is wrong. */
export function parseLine(text: string, endpoint: string): BatchLine {
  const line = lineSchema.safeParse(JSON.parse(text))
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
 * Checks a new batch's lines and says in the store what came of it. Done again after a crash, it changes nothing.
 *
 * @returns the batch as it is then; undefined where there is none, or its lines are wrong
 */
export async function checkBatch(
  id: string,
  { store, clock }: { readonly store: BatchStore; readonly clock: Clock },
): Promise<Kept<BatchObject> | undefined> {
  const kept = await store.get('batches', id)
  if (kept === undefined || kept.object.status !== 'validating') return kept
  const { input_file_id: input, endpoint } = kept.object
  const { total, errors } = await checkLines(store.lines(input), endpoint)
  const now = Math.floor(clock.now() / 1000)
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

/** How many lines there are, and what is wrong with them. */
async function checkLines(
  lines: AsyncIterable<{ readonly line: number; readonly text: string }>,
  endpoint: string,
): Promise<{ readonly total: number; readonly errors: readonly BatchError[] }> {
  const ids = new Set<string>()
  const errors: BatchError[] = []
  let total = 0
  const fail = (message: string, line: number | null, param: string | null = null) =>
    errors.push({ code: 'invalid_request', message, line, param })
  for await (const { line, text } of lines) {
    total++
    try {
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
