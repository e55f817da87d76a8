import { Readable } from 'node:stream'
import {
  JobQueue,
  type RedisBus,
  type ResultKind,
  SharedBlobs,
  SharedRecords,
  SharedResults,
} from '@cllm/cluster'
import type { Logger } from '@cllm/core'
import {
  type BatchAnswers,
  type BatchJob,
  type BatchKind,
  type BatchObject,
  type BatchStore,
  newestFirst,
  type OpenBatches,
  outputIds,
  splitLines,
  type Stored,
} from '@cllm/http-koa'

/**
 * Opens the batches of a cluster on its server. They are left by closing them.
 *
 * @throws `cluster_unavailable`
 */
export async function openSharedBatches(
  bus: RedisBus,
  logger: Logger,
): Promise<OpenBatches & { readonly close: () => Promise<void> }> {
  const queue = await JobQueue.open<BatchJob>(bus, 'batch', logger)
  const store = sharedBatchStore(bus)
  return {
    store,
    answers: sharedAnswers(store, new SharedResults(bus, 'batch:results')),
    queue: {
      isForgetful: false,
      add: async (jobs) => await queue.add(jobs),
      remove: async (id) => await queue.remove(id),
      async process(concurrency, run, onBegin) {
        await queue.process(concurrency, async ({ data }, signal) => await run(data, signal))
        await onBegin()
      },
    },
    close: async () => await queue.close(),
  }
}

type SharedBatchStore = ReturnType<typeof sharedBatchStore>

/** Files and batches of a cluster, on its server. */
export function sharedBatchStore(bus: RedisBus) {
  const blobs = new SharedBlobs(bus, 'batch:content')
  const all = <K extends BatchKind>(kind: K) =>
    new SharedRecords<Stored<K>>(bus, `batch:${kind}`, (kept) => kept?.object?.id !== undefined)
  return {
    blobs,
    async create(kept, content) {
      const { id } = kept.object
      await blobs.write(id, [content], { record: all('files').toWrite(id, kept) })
    },
    put: async (kind, kept) => await all(kind).put(kept.object.id, kept),
    get: async (kind, id) => await all(kind).get(id),
    list: async (kind, onDamaged) => newestFirst(await all(kind).list(onDamaged)),
    /** Keeps what other fronts change meanwhile. */
    update: async (id, change) =>
      await all('batches').update(id, (kept) => {
        const changed = change(kept.object)
        return changed && { ...kept, object: { ...kept.object, ...changed } }
      }),
    async remove(id, isWhole = true) {
      await all(id.startsWith('batch_') ? 'batches' : 'files').remove(id)
      if (isWhole) await blobs.remove(id)
    },
    content: (id) => Readable.from(blobs.read(id)),
    sizeOf: async (id) => await blobs.size(id),
    lines: (id) => splitLines(blobs.read(id)),
    textOf: async (id, { at, bytes }) => (await blobs.slice(id, at, at + bytes)).toString('utf8'),
  } satisfies BatchStore & { readonly blobs: SharedBlobs }
}

/** Results that are read at a time. */
const resultsAtOnce = 100

/** The answers to the lines of a cluster's batches: one for each line, whichever front computes it. */
function sharedAnswers(store: SharedBatchStore, results: SharedResults): BatchAnswers {
  return {
    open: async ({ id, request_counts: { total } }) => await results.open(id, total),
    stateOf: async (batch, { line }) =>
      (await results.has(batch, line)) ? await results.state(batch) : 'due',
    add: async (batch, { line }, kind, answer) =>
      await results.add(batch, line, kind, JSON.stringify(answer)),
    counts: async (batch) => await results.counts(batch),
    async close(batch) {
      const counts = await results.counts(batch.id)
      const ifExists = results.keyOf(batch.id)
      for (const kind of ['completed', 'failed'] as const) {
        if (!counts?.[kind]) continue
        const id = outputIds(batch.id)[kind]
        if (!(await store.blobs.write(id, answersOf(batch, kind), { ifExists }))) return undefined
      }
      // A batch that ends before its lines are checked has none.
      return counts ?? batch.request_counts
    },
    remove: async (batch) => await results.remove(batch),
  }

  /** The answers of a kind, in the order of the lines. */
  async function* answersOf({ id, input_file_id: input }: BatchObject, kind: ResultKind) {
    let numbers: number[] = []
    async function* read(): AsyncGenerator<Buffer> {
      for await (const texts of results.read(id, numbers.splice(0))) {
        const own = texts.filter((text) => text !== undefined && kindOf(text) === kind)
        yield Buffer.from(own.map((text) => `${text}\n`).join(''))
      }
    }
    for await (const { line } of store.lines(input)) {
      if (numbers.push(line) === resultsAtOnce) yield* read()
    }
    yield* read()
  }
}

function kindOf(text: string): ResultKind {
  const { response } = JSON.parse(text) as { response: { status_code: number } }
  return response.status_code < 300 ? 'completed' : 'failed'
}
