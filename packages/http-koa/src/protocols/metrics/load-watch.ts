import { blockSize, entryOf } from '@cllm/core'
import type { Clock, EngineDirectory, EngineInfo, EngineStatistics } from '@cllm/core'
import { inTime, loadedModels, peekInfo } from '../../engines/model-queries.js'
import { type Figures, type LabelledFigure, tellMetrics } from './create-metrics.js'
import { engineMetrics, loadMetrics } from './metric-table.js'

type LoadMetric = (typeof loadMetrics)[number]

/** What one of {@link loadMetrics} has of a model. */
interface LoadFigure extends LabelledFigure {
  readonly name: LoadMetric
}

/** How busy an engine is, or the workers of a model together. */
export type Load = ReturnType<typeof loadOf>

/** Works out the load. What an engine's info says of its size is of one worker, the statistics are of all. */
export function loadOf({ limits }: EngineInfo, statistics: EngineStatistics) {
  const { running, waiting, waitMs, slots, kvPool } = statistics
  const capacity = kvPool?.tokens ?? slots.length * limits.contextSize
  let [runningTokens, keptTokens] = [0, 0]
  for (const { state, tokens } of slots) {
    if (state === 'idle') keptTokens += tokens
    else runningTokens += tokens
  }
  // slots of a pool that share a prefix have it in the same cells
  if (kvPool !== undefined) runningTokens = Math.min(runningTokens, kvPool.tokens - kvPool.free)
  const blocks = {
    block_size: String(blockSize),
    num_gpu_blocks: String(Math.floor(capacity / blockSize)),
  }
  const series: LoadFigure[] = [
    { name: 'cllm_num_requests_running', value: running },
    { name: 'cllm_num_requests_waiting', value: waiting },
    { name: 'cllm_kv_cache_usage_perc', value: runningTokens / Math.max(1, capacity) },
    { name: 'cllm_cache_config_info', value: 1, more: blocks },
  ]
  if (waitMs !== undefined) {
    series.push({ name: 'cllm_predicted_wait_seconds', value: waitMs / 1000 })
  }
  return {
    /** Tokens in slots of requests that run; in a pool at most those that are in its cells. */
    runningTokens,
    /** Tokens in idle slots. */
    keptTokens,
    /** Tokens that all slots together can hold. */
    capacity,
    /** What `/metrics/load` says of it. */
    series,
  }
}

/** What `/metrics/load` says of a load. */
export const figuresOf = ({ series }: Load): Figures<LoadMetric> =>
  Object.fromEntries(series.map(({ name, ...figure }) => [name, [figure]]))

/** Milliseconds for which an engine's answer is good. Pickers ask every 50 ms, and there may be several. */
const freshMs = 20
/** The same where the answer is made of several workers': each is a message there and back. */
const freshOfWorkersMs = 250
/** Milliseconds for which a reading waits for an engine, before its last values are told. */
const patienceMs = 50
/** The same for an engine that has told nothing yet: workers that begin to be busy may take as long. */
const firstPatienceMs = 500
/** Milliseconds after which an engine that has not answered is asked again. */
const againMs = 2_000

const tableOfLoad = Object.fromEntries(
  loadMetrics.map((name) => [name, engineMetrics[name]]),
) as Pick<typeof engineMetrics, LoadMetric>

/** What is known of a model's load. */
interface Known {
  load: Load | undefined
  freshMs: number
  askedAt: number
  /** Pending while its engine is asked. */
  asking: Promise<void> | undefined
}

/**
 * The load of all models in memory, for `GET /metrics/load`. However often it is read, an engine is
 * asked one thing at a time; one that does not answer keeps its last values, and delays one reading in two seconds.
 */
export class LoadWatch {
  readonly #models = new Map<string, Known>()
  /** As told last; undefined once that is no longer true. */
  #text: Promise<string> | undefined

  /** The gauges in Prometheus' text format. It takes {@link firstPatienceMs} at most. */
  async read(directory: EngineDirectory, clock: Clock): Promise<string> {
    const now = clock.now()
    const models = loadedModels(directory)
    this.#forgetAllBut(models)
    const asked = models.map((model) => this.#refresh(model, directory, clock))
    await Promise.all(
      asked.map(async ({ load, asking, askedAt }) => {
        const until = askedAt + (load === undefined ? firstPatienceMs : patienceMs)
        if (asking !== undefined && now < until) await inTime(clock, until - now, asking)
      }),
    )
    return await (this.#text ??= this.#write())
  }

  #forgetAllBut(models: readonly string[]): void {
    for (const model of this.#models.keys()) {
      if (models.includes(model)) continue
      this.#models.delete(model)
      this.#text = undefined
    }
  }

  #refresh(model: string, directory: EngineDirectory, clock: Clock): Known {
    const now = clock.now()
    const known = entryOf(this.#models, model, () => ({
      load: undefined,
      freshMs,
      askedAt: -Infinity,
      asking: undefined,
    }))
    if (known.asking !== undefined || now - known.askedAt < known.freshMs) return known
    known.askedAt = now
    known.asking = this.#ask(model, known, directory, clock)
    return known
  }

  async #ask(model: string, known: Known, directory: EngineDirectory, clock: Clock): Promise<void> {
    const asked = async () => {
      const client = directory.open(model, { peek: true })
      return await Promise.all([peekInfo(directory, model), client.statistics()])
    }
    const [info, statistics] = (await inTime(clock, againMs, asked())) ?? []
    known.asking = undefined
    if (info === undefined || statistics === undefined) return
    known.load = loadOf(info, statistics)
    known.freshMs = statistics.workers === undefined ? freshMs : freshOfWorkersMs
    this.#text = undefined
  }

  async #write(): Promise<string> {
    const told = [...this.#models].map(
      ([model, { load }]) => [model, load === undefined ? {} : figuresOf(load)] as const,
    )
    return await tellMetrics(tableOfLoad, told)
  }
}
