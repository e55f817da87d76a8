import { isObject, parsedJson } from '../../fields/fields.js'
import type { BatchFolder } from './batch-folder.js'
import { type BatchObject, outputIds } from './batch-objects.js'
import type { Added, AnswerKind, BatchAnswers, NumberedBatchLine } from './batch-store.js'

/** The `custom_id`s of a batch's answered lines, by how they ended. */
interface Answered extends Readonly<Record<AnswerKind, Set<string>>> {
  readonly total: number
}

/** The answers of batches in a folder: each is written to its file at once. */
export class FolderAnswers implements BatchAnswers {
  readonly #open = new Map<string, Answered>()

  /** @param isHeld - whether this process may still write, as it may have been suspended */
  constructor(
    private readonly folder: BatchFolder,
    private readonly isHeld: () => boolean,
  ) {}

  /** Forgets the answers that it has read, as another process may have written since. */
  forget(): void {
    this.#open.clear()
  }

  async open({ id, request_counts: { total } }: BatchObject): Promise<void> {
    if (this.#open.has(id)) return
    const files = outputIds(id)
    const completed = await readIds(this.folder, files.completed)
    const failed = await readIds(this.folder, files.failed)
    this.#open.set(id, { total, completed, failed })
  }

  async stateOf(batch: string, { custom_id: id }: NumberedBatchLine): Promise<'due' | Added> {
    const answered = this.#open.get(batch)
    if (answered === undefined) return 'closed'
    return answered.completed.has(id) || answered.failed.has(id) ? stateOf(answered) : 'due'
  }

  async add(batch: string, { custom_id: id }: NumberedBatchLine, kind: AnswerKind, answer: object) {
    const answered = this.#open.get(batch)
    if (answered === undefined) return 'closed'
    await this.folder.append(outputIds(batch)[kind], answer, this.isHeld)
    answered[kind].add(id)
    return stateOf(answered)
  }

  async counts(batch: string): Promise<BatchObject['request_counts'] | undefined> {
    const answered = this.#open.get(batch)
    if (answered === undefined) return undefined
    const { total, completed, failed } = answered
    return { total, completed: completed.size, failed: failed.size }
  }

  async close(batch: BatchObject): Promise<BatchObject['request_counts'] | undefined> {
    await this.open(batch)
    for (const file of Object.values(outputIds(batch.id))) await this.folder.mend(file)
    return await this.counts(batch.id)
  }

  async remove(batch: string): Promise<void> {
    this.#open.delete(batch)
  }
}

const stateOf = ({ completed, failed, total }: Answered): Added =>
  completed.size + failed.size >= total ? 'whole' : 'open'

async function readIds(folder: BatchFolder, file: string): Promise<Set<string>> {
  const ids = new Set<string>()
  if (!(await folder.mend(file))) return ids
  for await (const { text } of folder.lines(file)) {
    const answer = parsedJson(text)
    if (isObject(answer) && typeof answer['custom_id'] === 'string') ids.add(answer['custom_id'])
  }
  return ids
}
