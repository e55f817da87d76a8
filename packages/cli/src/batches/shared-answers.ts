import type { ResultKind, SharedResults } from '@cllm/cluster'
import {
  type Added,
  type BatchAnswers,
  type BatchObject,
  type FileObject,
  type Kept,
  type NumberedBatchLine,
  outputIds,
} from '@cllm/http-koa'
import type { SharedBatchStore } from './shared-batch-store.js'

/** Results that are asked for at a time. */
const resultsAtOnce = 100

/** The answers to the lines of a cluster's batches: whoever computes them, one for each. */
export class SharedAnswers implements BatchAnswers {
  constructor(
    private readonly store: SharedBatchStore,
    private readonly results: SharedResults,
  ) {}

  async open({ id, request_counts: { total } }: BatchObject): Promise<void> {
    await this.results.open(id, total)
  }

  async has(batch: string, { line }: NumberedBatchLine): Promise<boolean> {
    return await this.results.has(batch, line)
  }

  async add(
    batch: string,
    { line }: NumberedBatchLine,
    kind: ResultKind,
    answer: object,
  ): Promise<Added> {
    return await this.results.add(batch, line, kind, JSON.stringify(answer))
  }

  async state(batch: string): Promise<Added> {
    return await this.results.state(batch)
  }

  async counts(batch: string): Promise<BatchObject['request_counts'] | undefined> {
    return await this.results.counts(batch)
  }

  /** The answers are in the order of the lines. */
  async close({ object, owner }: Kept<BatchObject>, now: number) {
    const { store, results } = this
    const { id: batch } = object
    const counts = await results.counts(batch)
    const describe = async (kind: ResultKind, filename: string) => {
      if (!counts?.[kind]) return null
      const id = outputIds(batch)[kind]
      if (!(await store.blobs.write(id, this.#answers(object, kind), results.keyOf(batch)))) {
        return undefined
      }
      const about = { id, object: 'file', created_at: now, filename } as const
      const bytes = await store.sizeOf(id)
      const described: FileObject = { ...about, bytes, purpose: 'batch_output' }
      await store.put('files', { ...(owner && { owner }), object: described })
      return id
    }
    const output_file_id = await describe('completed', `${batch}_output.jsonl`)
    const error_file_id = await describe('failed', `${batch}_error.jsonl`)
    if (output_file_id === undefined || error_file_id === undefined) return undefined
    return { output_file_id, error_file_id }
  }

  async remove(batch: string): Promise<void> {
    await this.results.remove(batch)
  }

  /** The answers of a kind, in the order of the lines. */
  async *#answers(
    { id, input_file_id: input }: BatchObject,
    kind: ResultKind,
  ): AsyncGenerator<Buffer> {
    let numbers: number[] = []
    const { results } = this
    async function* read(): AsyncGenerator<Buffer> {
      for await (const texts of results.read(id, numbers.splice(0))) {
        const own = texts.filter((text) => text !== undefined && kindOf(text) === kind)
        yield Buffer.from(own.map((text) => `${text}\n`).join(''))
      }
    }
    for await (const { line } of this.store.lines(input)) {
      if (numbers.push(line) === resultsAtOnce) yield* read()
    }
    yield* read()
  }
}

function kindOf(text: string): ResultKind {
  const { response } = JSON.parse(text) as { response: { status_code: number } }
  return response.status_code < 300 ? 'completed' : 'failed'
}
