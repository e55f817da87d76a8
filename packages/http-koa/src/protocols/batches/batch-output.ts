import type { Random } from '@cllm/core'
import { requestId } from '@cllm/host'
import type { BatchFolder } from './batch-folder.js'
import type { BatchObject, Kept } from './batch-objects.js'
import type { BatchLine, LineAnswer } from './lines/line-sender.js'

/** The answers of a batch so far: those that went well, and the others. */
export interface BatchOutput {
  /** Answers, good and bad. */
  readonly size: number
  readonly counts: { readonly completed: number; readonly failed: number }
  /** Whether a line has its answer. */
  has(customId: string): boolean
  /** Resolves when the answer is on disk. */
  add(line: BatchLine, answer: LineAnswer): Promise<void>
  /** Makes files of what there is; returns their ids. */
  close(now: number): Promise<Pick<BatchObject, 'output_file_id' | 'error_file_id'>>
}

/** The ids of a batch's files, whose digits are its own, so that they are found again after a crash. */
export function outputIds(batch: string): { readonly good: string; readonly bad: string } {
  const digits = batch.slice('batch_'.length)
  return { good: `file-${flipped(digits, 0)}`, bad: `file-${flipped(digits, 1)}` }
}

/** Opens a batch's answers, those of an earlier process included. */
export async function openOutput(
  folder: BatchFolder,
  { owner, object }: Kept<BatchObject>,
  { random, isHeld }: { readonly random: Random; readonly isHeld: () => boolean },
): Promise<BatchOutput> {
  const ids = outputIds(object.id)
  const done = { good: await readIds(folder, ids.good), bad: await readIds(folder, ids.bad) }

  async function fileOf(kind: 'good' | 'bad', now: number): Promise<string | null> {
    if (done[kind].size === 0) return null
    const id = ids[kind]
    const filename = `${object.id}_${kind === 'good' ? 'output' : 'error'}.jsonl`
    await folder.put('files', {
      ...(owner && { owner }),
      object: {
        id,
        object: 'file',
        bytes: await folder.sizeOf(id),
        created_at: now,
        filename,
        purpose: 'batch_output',
      },
    })
    return id
  }

  return {
    get size() {
      return done.good.size + done.bad.size
    },
    get counts() {
      return { completed: done.good.size, failed: done.bad.size }
    },
    has: (customId) => done.good.has(customId) || done.bad.has(customId),
    async add({ custom_id }, { status, body }) {
      const kind = status < 300 ? 'good' : 'bad'
      const request_id = requestId(random)
      const response = { status_code: status, request_id, body }
      const line = { id: `batch_req_${requestId(random)}`, custom_id, response, error: null }
      await folder.append(ids[kind], line, isHeld)
      done[kind].add(custom_id)
    },
    close: async (now) => ({
      output_file_id: await fileOf('good', now),
      error_file_id: await fileOf('bad', now),
    }),
  }
}

/** Another id for each number. */
function flipped(digits: string, nth: number): string {
  return digits.slice(0, -1) + ((parseInt(digits.slice(-1), 16) ^ (nth + 1)) & 15).toString(16)
}

/** Undefined for the half of a line that a full disk has left. */
function idIn(text: string): string | undefined {
  try {
    return (JSON.parse(text) as { custom_id: string }).custom_id
  } catch {
    return undefined
  }
}

async function readIds(folder: BatchFolder, file: string): Promise<Set<string>> {
  const ids = new Set<string>()
  try {
    await folder.mend(file)
    for await (const { text } of folder.lines(file)) {
      const id = idIn(text)
      if (id !== undefined) ids.add(id)
    }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
  }
  return ids
}
