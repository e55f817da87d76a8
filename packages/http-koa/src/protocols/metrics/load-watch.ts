import { blockSize, entryOf } from '@cllm/core'
import type { Clock, EngineDirectory, EngineInfo, EngineStatistics } from '@cllm/core'
import { inTime, loadedModels, peekInfo } from '../../engines/model-queries.js'
import { type Figures, tellMetrics } from './create-metrics.js'
import { engineMetrics, loadMetrics } from './metric-table.js'

type LoadMetric = (typeof loadMetrics)[number]

/** The load of an engine, or of a model's workers together. */
export type Load = ReturnType<typeof loadOf>

/** Computes the load. With several workers, `limits` are those of one, and `statistics` are of all together. */
export function loadOf({ limits }: EngineInfo, statistics: EngineStatistics) {
  const { running, waiting, waitMs, slots, kvPool } = statistics
  const capacity = kvPool?.tokens ?? slots.length * limits.contextSize
  let [runningTokens, keptTokens] = [0, 0]
  for (const { state, tokens } of slots) {
    if (state === 'idle') keptTokens += tokens
    else runningTokens += tokens
  }
  // slots that share a prefix in a pool share its cells
  if (kvPool !== undefined) runningTokens = Math.min(runningTokens, kvPool.tokens - kvPool.free)
  const blocks = {
    block_size: String(blockSize),
    num_gpu_blocks: String(Math.floor(capacity / blockSize)),
  }
  const figures: Figures<LoadMetric> = {
    cllm_num_requests_running: running,
    cllm_num_requests_waiting: waiting,
    cllm_kv_cache_usage_perc: runningTokens / Math.max(1, capacity),
    cllm_cache_config_info: [{ value: 1, more: blocks }],
    cllm_predicted_wait_seconds: waitMs === undefined ? undefined : waitMs / 1000,
  }
  return {
    /** Tokens in the slots of running requests; with a pool, at most its used cells. */
    runningTokens,
    /** Tokens in idle slots. */
    keptTokens,
    /** Tokens that all slots together can hold. */
    capacity,
    /** The metrics for `/metrics/load`. */
    figures,
  }
}

/** Milliseconds for which an engine's answer is reused, as several endpoint pickers may each poll every 50 ms. */
const freshMs = 20
/** The same for an answer of several workers, which costs a message to each and back. */
const freshOfWorkersMs = 250
/** Milliseconds that a reading waits for an engine before it uses its last values. */
const patienceMs = 50
/** The same for an engine without last values: workers that just became busy may take as long. */
const firstPatienceMs = 500
/** Milliseconds after which an engine that has not answered is queried again. */
const againMs = 2_000

const tableOfLoad = Object.fromEntries(
  loadMetrics.map((name) => [name, engineMetrics[name]]),
) as Pick<typeof engineMetrics, LoadMetric>

/** The last load of a model, and the query in progress. */
interface Known {
  load: Load | undefined
  freshMs: number
  askedAt: number
  /** The query in progress, if any. */
  asking: Promise<void> | undefined
}

/**
 * The load of all models in memory, for `GET /metrics/load`. However often it is read, each engine gets one
 * query at a time. An engine that does not answer keeps its last values, and delays one reading every two seconds.
 */
export class LoadWatch {
  readonly #models = new Map<string, Known>()
  /** The last text; undefined once it is out of date. */
  #text: Promise<string> | undefined

  /** The gauges in Prometheus' text format, within {@link firstPatienceMs}. */
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
    const told = [...this.#models].map(([model, { load }]) => [model, load?.figures ?? {}] as const)
    return await tellMetrics(tableOfLoad, told)
  }
}
