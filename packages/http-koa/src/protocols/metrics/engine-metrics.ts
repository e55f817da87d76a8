import {
  type EngineInfo,
  type EngineStatistics,
  pastOf,
  type RecorderStatistics,
  type SchedulerInfo,
  type TierStatistics,
  type WorkersStatistics,
} from '@cllm/core'
import { Counter, Gauge, type Registry } from './prometheus.js'
import { ImportedHistogram } from './imported-histogram.js'
import { type Load, loadOf } from './load.js'
import { engineMetrics, type MetricEntry } from './metric-table.js'

type Name = keyof typeof engineMetrics

/** What an engine said when it was asked. */
export interface EngineAnswers {
  readonly info: EngineInfo
  readonly statistics: EngineStatistics
  readonly scheduler: SchedulerInfo
}

/** The engines' own figures, written anew at every scrape. */
export class EngineMetrics {
  readonly #gauges = new Map<string, Gauge>()
  readonly #counters = new Map<string, Counter>()
  readonly #histograms = new Map<string, ImportedHistogram>()
  /** What each engine said last. */
  readonly #last = new Map<string, EngineStatistics>()

  constructor(registry: Registry) {
    for (const [name, entry] of Object.entries<MetricEntry>(engineMetrics)) {
      const { type, help, labels = [] } = entry
      const options = { name, help, labelNames: ['model_name', ...labels], registers: [registry] }
      if (type === 'gauge') this.#gauges.set(name, new Gauge(options))
      else if (type === 'counter') this.#counters.set(name, new Counter(options))
      else {
        const imported = new ImportedHistogram(name, help, name.endsWith('_seconds') ? 0.001 : 1)
        registry.registerMetric(imported.asMetric())
        this.#histograms.set(name, imported)
      }
    }
  }

  /** Forgets what was said before. */
  reset(): void {
    for (const metrics of [this.#gauges, this.#counters, this.#histograms]) {
      for (const metric of metrics.values()) metric.reset()
    }
  }

  /** An engine that does not answer has what it had counted before, and is down. Returns that, if any. */
  down(model_name: string): EngineStatistics | undefined {
    this.#gauge('cllm_engine_up', 0, { model_name })
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
  set(model_name: string, { info, statistics, scheduler }: EngineAnswers): void {
    const labels = { model_name }
    this.#last.set(model_name, statistics)
    this.#gauge('cllm_engine_up', 1, labels)
    this.#gauge('cllm_scheduler_info', 1, { model_name, policy: scheduler.policy })
    this.#gauge('cllm_scheduler_fallback', scheduler.fallback === undefined ? 0 : 1, labels)
    this.#setSlots(labels, loadOf(info, statistics), statistics)
    this.#setTotals(labels, statistics)
    const { longestPauseMs, ...tiers } = statistics.cache ?? { longestPauseMs: undefined }
    if (longestPauseMs !== undefined) {
      this.#gauge('cllm_cache_longest_pause_seconds', longestPauseMs / 1000, labels)
    }
    for (const [tier, { states, bytes, limitBytes }] of Object.entries<TierStatistics>(tiers)) {
      this.#gauge('cllm_cache_states', states, { ...labels, tier })
      this.#gauge('cllm_cache_bytes', bytes, { ...labels, tier })
      this.#gauge('cllm_cache_limit_bytes', limitBytes, { ...labels, tier })
    }
    if (statistics.workers !== undefined) this.#setWorkers(labels, statistics.workers)
    if (statistics.recorder !== undefined) this.#setRecorder(labels, statistics.recorder)
  }

  #setSlots(labels: ModelLabel, load: Load, { slots, kvPool }: EngineStatistics): void {
    for (const { name, value, more } of load.series)
      this.#gauge(name, value, { ...labels, ...more })
    const busy = slots.filter(({ state }) => state !== 'idle').length
    this.#gauge('cllm_slots', busy, { ...labels, state: 'busy' })
    this.#gauge('cllm_slots', slots.length - busy, { ...labels, state: 'idle' })
    this.#gauge('cllm_kv_cache_tokens', load.runningTokens, { ...labels, use: 'running' })
    this.#gauge('cllm_kv_cache_tokens', load.keptTokens, { ...labels, use: 'kept' })
    this.#gauge('cllm_kv_cache_capacity_tokens', load.capacity, labels)
    if (kvPool !== undefined) this.#gauge('cllm_kv_cache_free_tokens', kvPool.free, labels)
  }

  #setWorkers(labels: ModelLabel, { list }: WorkersStatistics): void {
    for (const state of ['up', 'draining', 'restarting', 'incompatible'] as const) {
      const count = list.filter((worker) => worker.state === state).length
      this.#gauge('cllm_workers', count, { ...labels, state })
    }
    for (const { id, open } of list) {
      this.#gauge('cllm_worker_requests', open, { ...labels, worker: id })
    }
  }

  #countWorkers(labels: ModelLabel, counts: WorkersStatistics): void {
    const { placed, movedExactly, movedInexactly, refusedMessages } = counts
    this.#count('cllm_cluster_refused_messages_total', refusedMessages, labels)
    this.#count('cllm_requests_placed_total', placed, labels)
    this.#count('cllm_requests_moved_total', movedExactly, { ...labels, exact: 'true' })
    this.#count('cllm_requests_moved_total', movedInexactly, { ...labels, exact: 'false' })
  }

  #countTier(labels: ModelLabel, tier: TierStatistics): void {
    this.#count('cllm_cache_hits_total', tier.hits, labels)
    this.#count('cllm_cache_hit_tokens_total', tier.hitTokens, labels)
    this.#count('cllm_cache_misses_total', tier.misses, labels)
    this.#count('cllm_cache_saved_total', tier.saved, labels)
    this.#count('cllm_cache_skipped_total', tier.skipped, labels)
    this.#count('cllm_cache_failed_total', tier.failed, labels)
    this.#count('cllm_cache_evictions_total', tier.evictions, labels)
    this.#count('cllm_cache_save_seconds_total', tier.saveMs / 1000, labels)
    this.#count('cllm_cache_load_seconds_total', tier.loadMs / 1000, labels)
  }

  #setRecorder(labels: ModelLabel, { arrivals, steps, bytes }: RecorderStatistics): void {
    this.#gauge('cllm_recorder_entries', arrivals, { ...labels, kind: 'arrivals' })
    this.#gauge('cllm_recorder_entries', steps, { ...labels, kind: 'steps' })
    this.#gauge('cllm_recorder_bytes', bytes, labels)
  }

  #setTotals(labels: ModelLabel, statistics: EngineStatistics): void {
    const { promptTokens, cachedTokens, prefillTokens, decodeTokens } = statistics
    for (const [outcome, count] of Object.entries(statistics.requests)) {
      this.#count('cllm_engine_requests_total', count, { ...labels, outcome })
    }
    this.#count('cllm_prompt_tokens_total', promptTokens, labels)
    this.#count('cllm_prompt_tokens_cached_total', cachedTokens, labels)
    this.#count('cllm_prefix_cache_queries_total', promptTokens, labels)
    this.#count('cllm_prefix_cache_hits_total', cachedTokens, labels)
    this.#count('cllm_generation_tokens_total', statistics.generatedTokens, labels)
    this.#count('cllm_num_preemptions_total', statistics.preemptions, labels)
    this.#count('cllm_policy_faults_total', statistics.policyFaults, labels)
    this.#count('cllm_engine_steps_total', statistics.steps, labels)
    this.#count('cllm_step_tokens_total', prefillTokens, { ...labels, kind: 'prefill' })
    this.#count('cllm_step_tokens_total', decodeTokens, { ...labels, kind: 'decode' })
    const { drafts = 0, draftTokens = 0, acceptedTokens = 0 } = statistics.speculation ?? {}
    this.#count('cllm_spec_decode_num_drafts_total', drafts, labels)
    this.#count('cllm_spec_decode_num_draft_tokens_total', draftTokens, labels)
    this.#count('cllm_spec_decode_num_accepted_tokens_total', acceptedTokens, labels)
    this.#count('cllm_engine_decode_seconds_total', statistics.decodeMs / 1000, labels)
    this.#count('cllm_engine_sample_seconds_total', statistics.sampleMs / 1000, labels)
    this.#count('cllm_engine_busy_seconds_total', statistics.busyMs / 1000, labels)
    const { longestPauseMs: _, ...tiers } = statistics.cache ?? { longestPauseMs: 0 }
    for (const [tier, found] of Object.entries<TierStatistics>(tiers)) {
      this.#countTier({ ...labels, tier }, found)
    }
    if (statistics.workers !== undefined) this.#countWorkers(labels, statistics.workers)
    const { model_name } = labels
    this.#histograms.get('cllm_step_time_seconds')?.set(model_name, statistics.stepMs)
    this.#histograms.get('cllm_iteration_tokens_total')?.set(model_name, statistics.stepTokens)
    this.#histograms.get('cllm_step_sequences')?.set(model_name, statistics.stepSequences)
  }

  #gauge(name: Name, value: number, labels: ModelLabel): void {
    this.#gauges.get(name)?.set({ ...labels }, value)
  }

  #count(name: Name, value: number, labels: ModelLabel): void {
    this.#counters.get(name)?.inc({ ...labels }, value)
  }
}

interface ModelLabel {
  readonly model_name: string
  readonly [label: string]: string
}
