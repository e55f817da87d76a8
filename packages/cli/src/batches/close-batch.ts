import type { SharedResults } from '@cllm/cluster'
import type { Clock } from '@cllm/core'
import { type BatchObject, type FileObject, isUnderWay } from '@cllm/http-koa'
import type { SharedBatchStore } from './shared-batch-store.js'

/** How a batch ends. */
export type BatchEnd = 'completed' | 'expired' | 'cancelled'

/** Results that are asked for at a time. */
const resultsAtOnce = 100

/**
 * Makes files of a batch's answers, in the order of its lines, and ends it. Whoever comes later finds it
 * ended; done again after a crash, it makes the same files.
 */
export async function closeBatch(
  id: string,
  as: BatchEnd,
  { store, results, clock }: { store: SharedBatchStore; results: SharedResults; clock: Clock },
): Promise<void> {
  const kept = await store.get('batches', id)
  if (kept === undefined || !isUnderWay(kept.object)) return await results.remove(id)
  const { object, owner } = kept
  const counts = await results.counts(id)
  // What is cancelled while it ends is cancelled.
  const end = object.status === 'cancelling' ? 'cancelled' : as
  const now = Math.floor(clock.now() / 1000)
  const digits = id.slice('batch_'.length)
  const fileOf = async (kind: 'output' | 'error', isIt: (status: number) => boolean) => {
    const file = `file-${flipped(digits, kind === 'output' ? 1 : 2)}`
    const lines = answers(id, object, { store, results }, isIt)
    if (!(await store.blobs.write(file, lines, results.keyOf(id)))) return undefined
    const bytes = await store.sizeOf(file)
    const filename = `${id}_${kind}.jsonl`
    const about = { id: file, object: 'file', bytes, created_at: now, filename } as const
    const described: FileObject = { ...about, purpose: 'batch_output' }
    await store.put('files', { ...(owner && { owner }), object: described })
    return file
  }
  const output = counts?.completed ? await fileOf('output', (status) => status < 300) : null
  const errors = counts?.failed ? await fileOf('error', (status) => status >= 300) : null
  // Another front has ended it meanwhile.
  if (output === undefined || errors === undefined) return
  await store.update(id, (batch) =>
    isUnderWay(batch)
      ? {
          status: end,
          [`${end}_at`]: now,
          ...(end === 'completed' && { finalizing_at: now }),
          output_file_id: output,
          error_file_id: errors,
          ...(counts && { request_counts: counts }),
        }
      : undefined,
  )
  await results.remove(id)
}

/** The answers of a kind, in the order of the lines. */
async function* answers(
  id: string,
  { input_file_id: input }: BatchObject,
  { store, results }: { store: SharedBatchStore; results: SharedResults },
  isIt: (status: number) => boolean,
): AsyncGenerator<Buffer> {
  let numbers: number[] = []
  async function* read(): AsyncGenerator<Buffer> {
    for await (const texts of results.read(id, numbers.splice(0))) {
      const own = texts.filter((text) => text !== undefined && isIt(statusOf(text)))
      yield Buffer.from(own.map((text) => `${text}\n`).join(''))
    }
  }
  for await (const { line } of store.lines(input)) {
    if (numbers.push(line) === resultsAtOnce) yield* read()
  }
  yield* read()
}

function statusOf(text: string): number {
  return (JSON.parse(text) as { response: { status_code: number } }).response.status_code
}

/** Another id for each number, the same each time. */
function flipped(digits: string, number: number): string {
  return digits.slice(0, -1) + (parseInt(digits.slice(-1), 16) ^ number).toString(16)
}
