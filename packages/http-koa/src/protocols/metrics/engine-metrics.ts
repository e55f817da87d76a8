import type {
  EngineInfo,
  EngineStatistics,
  ModelStatus,
  RecorderStatistics,
  SchedulerInfo,
  TierStatistics,
  WorkersStatistics,
} from '@cllm/core'
import { pastOf } from '@cllm/host'
import { createMetrics, type Metrics, type Registry } from './create-metrics.js'
import { type Load, loadOf } from './load-watch.js'
import { engineMetrics } from './metric-table.js'

/** The engines' own figures, written anew at every scrape. */
export class EngineMetrics {
  readonly #metrics: Metrics<typeof engineMetrics>
  /** What each engine said last. */
  readonly #last = new Map<string, EngineStatistics>()

  constructor(registry: Registry) {
    this.#metrics = createMetrics(registry, engineMetrics)
  }

  /** Forgets what was said before. */
  reset(): void {
    for (const metric of Object.values(this.#metrics)) metric.reset()
  }

  /** What a protocol could not keep, by model. */
  setUnkept(unkept: ReadonlyMap<string, number> = new Map()): void {
    for (const [model_name, count] of unkept) {
      this.#metrics.cllm_responses_unkept_total.inc({ model_name }, count)
    }
  }

  /** Writes down how a model comes into memory; nothing of one that is always there. */
  setLoads({ name: model_name, loads, swaps = 0, waiting }: ModelStatus): void {
    if (loads === undefined) return
    this.#metrics.cllm_model_loads_total.inc({ model_name }, loads)
    this.#metrics.cllm_model_swaps_total.inc({ model_name }, swaps)
    this.#metrics.cllm_model_waiting.set({ model_name }, waiting)
  }

  /** An engine that does not answer has what it had counted before, and is down. Returns that, if any. */
  down(model_name: string): EngineStatistics | undefined {
    this.#metrics.cllm_engine_up.set({ model_name }, 0)
    return this.unloaded(model_name, undefined)
  }

  /** A model that is not in memory has what its engines had counted. Returns that, if any. */
  unloaded(model_name: string, past: EngineStatistics | undefined): EngineStatistics | undefined {
    // What was said last, where that is more: while it is unloaded, and where its engine has died.
    const last = this.#last.get(model_name)
    const isMore = last !== undefined && last.steps > (past?.steps ?? -1)
    const counted = isMore ? pastOf(last) : past
    if (counted !== undefined) this.#setTotals({ model_name }, counted)
    return counted
  }

  /** Writes down what an engine says. */
  set(
    model_name: string,
    info: EngineInfo,
    statistics: EngineStatistics,
    scheduler: SchedulerInfo,
  ): void {
    const labels = { model_name }
    this.#last.set(model_name, statistics)
    this.#metrics.cllm_engine_up.set(labels, 1)
    this.#metrics.cllm_scheduler_info.set({ model_name, policy: scheduler.policy }, 1)
    this.#metrics.cllm_scheduler_fallback.set(labels, scheduler.fallback === undefined ? 0 : 1)
    this.#setSlots(labels, loadOf(info, statistics), statistics)
    this.#setTotals(labels, statistics)
    if (statistics.cache !== undefined) {
      const { longestPauseMs } = statistics.cache
      this.#metrics.cllm_cache_longest_pause_seconds.set(labels, longestPauseMs / 1000)
    }
    for (const [tier, { states, bytes, limitBytes }] of tiersOf(statistics)) {
      this.#metrics.cllm_cache_states.set({ ...labels, tier }, states)
      this.#metrics.cllm_cache_bytes.set({ ...labels, tier }, bytes)
      this.#metrics.cllm_cache_limit_bytes.set({ ...labels, tier }, limitBytes)
    }
    if (statistics.workers !== undefined) this.#setWorkers(labels, statistics.workers)
    if (statistics.recorder !== undefined) this.#setRecorder(labels, statistics.recorder)
  }

  #setSlots(labels: ModelLabel, load: Load, { slots, kvPool }: EngineStatistics): void {
    for (const { name, value, more } of load.series)
      this.#metrics[name].set({ ...labels, ...more }, value)
    const busy = slots.filter(({ state }) => state !== 'idle').length
    this.#metrics.cllm_slots.set({ ...labels, state: 'busy' }, busy)
    this.#metrics.cllm_slots.set({ ...labels, state: 'idle' }, slots.length - busy)
    this.#metrics.cllm_kv_cache_tokens.set({ ...labels, use: 'running' }, load.runningTokens)
    this.#metrics.cllm_kv_cache_tokens.set({ ...labels, use: 'kept' }, load.keptTokens)
    this.#metrics.cllm_kv_cache_capacity_tokens.set(labels, load.capacity)
    if (kvPool !== undefined) this.#metrics.cllm_kv_cache_free_tokens.set(labels, kvPool.free)
  }

  #setWorkers(labels: ModelLabel, { list }: WorkersStatistics): void {
    for (const state of ['up', 'draining', 'restarting', 'incompatible'] as const) {
      const count = list.filter((worker) => worker.state === state).length
      this.#metrics.cllm_workers.set({ ...labels, state }, count)
    }
    for (const { id, open } of list) {
      this.#metrics.cllm_worker_requests.set({ ...labels, worker: id }, open)
    }
  }

  #countWorkers(labels: ModelLabel, counts: WorkersStatistics): void {
    const { placed, movedExactly, movedInexactly, refusedMessages } = counts
    this.#metrics.cllm_cluster_refused_messages_total.inc(labels, refusedMessages)
    this.#metrics.cllm_requests_placed_total.inc(labels, placed)
    this.#metrics.cllm_requests_moved_total.inc({ ...labels, exact: 'true' }, movedExactly)
    this.#metrics.cllm_requests_moved_total.inc({ ...labels, exact: 'false' }, movedInexactly)
  }

  #countTier(labels: ModelLabel, tier: TierStatistics): void {
    for (const what of ['hits', 'misses', 'saved', 'skipped', 'failed', 'evictions'] as const) {
      this.#metrics[`cllm_cache_${what}_total`].inc(labels, tier[what])
    }
    this.#metrics.cllm_cache_hit_tokens_total.inc(labels, tier.hitTokens)
    this.#metrics.cllm_cache_save_seconds_total.inc(labels, tier.saveMs / 1000)
    this.#metrics.cllm_cache_load_seconds_total.inc(labels, tier.loadMs / 1000)
  }

  #setRecorder(labels: ModelLabel, { arrivals, steps, bytes }: RecorderStatistics): void {
    this.#metrics.cllm_recorder_entries.set({ ...labels, kind: 'arrivals' }, arrivals)
    this.#metrics.cllm_recorder_entries.set({ ...labels, kind: 'steps' }, steps)
    this.#metrics.cllm_recorder_bytes.set(labels, bytes)
  }

  #setTotals(labels: ModelLabel, statistics: EngineStatistics): void {
    const { promptTokens, cachedTokens, prefillTokens, decodeTokens } = statistics
    for (const [outcome, count] of Object.entries(statistics.requests)) {
      this.#metrics.cllm_engine_requests_total.inc({ ...labels, outcome }, count)
    }
    this.#metrics.cllm_prompt_tokens_total.inc(labels, promptTokens)
    this.#metrics.cllm_prompt_tokens_cached_total.inc(labels, cachedTokens)
    this.#metrics.cllm_prefix_cache_queries_total.inc(labels, promptTokens)
    this.#metrics.cllm_prefix_cache_hits_total.inc(labels, cachedTokens)
    this.#metrics.cllm_generation_tokens_total.inc(labels, statistics.generatedTokens)
    this.#metrics.cllm_num_preemptions_total.inc(labels, statistics.preemptions)
    this.#metrics.cllm_policy_faults_total.inc(labels, statistics.policyFaults)
    this.#metrics.cllm_engine_steps_total.inc(labels, statistics.steps)
    const { interruptedSteps, partings, encodes } = statistics
    if (encodes !== undefined) {
      const { waiting, encoded, failed, found, encodeMs, queueMs } = encodes
      this.#metrics.cllm_encodes_waiting.set(labels, waiting)
      for (const [outcome, count] of Object.entries({ encoded, failed, found })) {
        this.#metrics.cllm_encodes_total.inc({ ...labels, outcome }, count)
      }
      this.#metrics.cllm_encode_seconds_total.inc(labels, encodeMs / 1000)
      this.#metrics.cllm_encode_queue_seconds_total.inc(labels, queueMs / 1000)
    }
    for (const [by, { prompts, tokens }] of Object.entries(partings ?? {})) {
      this.#metrics.cllm_prompts_parted_total.inc({ ...labels, by }, prompts)
      this.#metrics.cllm_prompt_tokens_parted_total.inc({ ...labels, by }, tokens)
    }
    this.#metrics.cllm_engine_steps_interrupted_total.inc(labels, interruptedSteps)
    this.#metrics.cllm_step_tokens_total.inc({ ...labels, kind: 'prefill' }, prefillTokens)
    this.#metrics.cllm_step_tokens_total.inc({ ...labels, kind: 'decode' }, decodeTokens)
    const { drafts = 0, draftTokens = 0, acceptedTokens = 0 } = statistics.speculation ?? {}
    this.#metrics.cllm_spec_decode_num_drafts_total.inc(labels, drafts)
    this.#metrics.cllm_spec_decode_num_draft_tokens_total.inc(labels, draftTokens)
    this.#metrics.cllm_spec_decode_num_accepted_tokens_total.inc(labels, acceptedTokens)
    this.#metrics.cllm_engine_decode_seconds_total.inc(labels, statistics.decodeMs / 1000)
    this.#metrics.cllm_engine_sample_seconds_total.inc(labels, statistics.sampleMs / 1000)
    this.#metrics.cllm_engine_busy_seconds_total.inc(labels, statistics.busyMs / 1000)
    for (const [tier, found] of tiersOf(statistics)) {
      this.#countTier({ ...labels, tier }, found)
    }
    if (statistics.workers !== undefined) this.#countWorkers(labels, statistics.workers)
    const { model_name } = labels
    this.#metrics.cllm_step_time_seconds.set(model_name, statistics.stepMs)
    this.#metrics.cllm_iteration_tokens_total.set(model_name, statistics.stepTokens)
    this.#metrics.cllm_step_sequences.set(model_name, statistics.stepSequences)
  }
}

/** The tiers that there are, with their names. */
const tiersOf = ({ cache }: EngineStatistics) =>
  (['ram', 'disk'] as const).flatMap((tier) => {
    const found = cache?.[tier]
    return found === undefined ? [] : [[tier, found] as const]
  })

interface ModelLabel {
  readonly model_name: string
  readonly [label: string]: string
}
