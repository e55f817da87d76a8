import { defined } from '@cllm/core'
import type {
  EngineInfo,
  EngineStatistics,
  ModelStatus,
  PartingStatistics,
  SchedulerInfo,
  TierStatistics,
  WorkerStatistics,
} from '@cllm/core'
import type { KoaProtocol } from '../../routes/koa-context.js'
import type { Figures, LabelledFigure } from './create-metrics.js'
import { loadOf } from './load-watch.js'
import type { engineMetrics } from './metric-table.js'

type EngineFigures = Figures<keyof typeof engineMetrics>

/** The metrics of a model's engines. */
export type EngineReport = readonly [model: string, figures: EngineFigures]

/** How many answers protocols could not store, by model. */
export function unkeptOf(protocols: readonly KoaProtocol[]): EngineReport[] {
  const counts = new Map<string, number>()
  for (const [model, count] of protocols.flatMap(({ unkept }) => [...(unkept ?? [])])) {
    counts.set(model, (counts.get(model) ?? 0) + count)
  }
  return [...counts].map(([model, count]) => [model, { cllm_responses_unkept_total: count }])
}

/** Metrics of loading a model; none for a model that is always in memory. */
export const loadsOf = ({ loads, swaps = 0, waiting }: ModelStatus): EngineFigures =>
  loads === undefined
    ? {}
    : {
        cllm_model_loads_total: loads,
        cllm_model_swaps_total: swaps,
        cllm_model_waiting: waiting,
      }

/** The present state of an engine. */
export function presentOf(
  info: EngineInfo,
  statistics: EngineStatistics,
  { policy, fallback }: SchedulerInfo,
): EngineFigures {
  const { slots, kvPool, cache, workers, recorder } = statistics
  const load = loadOf(info, statistics)
  const tiers = tiersOf(statistics)
  const busy = slots.filter(({ state }) => state !== 'idle').length
  return {
    cllm_engine_up: 1,
    cllm_scheduler_info: by('policy', { [policy]: 1 }),
    cllm_scheduler_fallback: fallback === undefined ? 0 : 1,
    ...load.figures,
    cllm_slots: by('state', { busy, idle: slots.length - busy }),
    cllm_kv_cache_tokens: by('use', { running: load.runningTokens, kept: load.keptTokens }),
    cllm_kv_cache_capacity_tokens: load.capacity,
    cllm_kv_cache_free_tokens: kvPool?.free,
    cllm_cache_longest_pause_seconds: cache && cache.longestPauseMs / 1000,
    cllm_cache_states: each('tier', tiers, ({ states }) => states),
    cllm_cache_bytes: each('tier', tiers, ({ bytes }) => bytes),
    cllm_cache_limit_bytes: each('tier', tiers, ({ limitBytes }) => limitBytes),
    cllm_workers: workers && countStates(workers.list),
    cllm_worker_requests: workers?.list.map(({ id, open }) => {
      return { value: open, more: { worker: id } }
    }),
    cllm_recorder_entries:
      recorder && by('kind', { arrivals: recorder.arrivals, steps: recorder.steps }),
    cllm_recorder_bytes: recorder?.bytes,
  }
}

/** The counters of an engine since its start, which may no longer be in memory. */
export function totalsOf(statistics: EngineStatistics): EngineFigures {
  const { promptTokens, cachedTokens, prefillTokens, decodeTokens, encodes, workers } = statistics
  const partings: Readonly<Record<string, PartingStatistics>> = statistics.partings ?? {}
  const { drafts = 0, draftTokens = 0, acceptedTokens = 0 } = statistics.speculation ?? {}
  const tiers = tiersOf(statistics)
  return {
    cllm_engine_requests_total: by('outcome', statistics.requests),
    cllm_prompt_tokens_total: promptTokens,
    cllm_prompt_tokens_cached_total: cachedTokens,
    cllm_prefix_cache_queries_total: promptTokens,
    cllm_prefix_cache_hits_total: cachedTokens,
    cllm_generation_tokens_total: statistics.generatedTokens,
    cllm_num_preemptions_total: statistics.preemptions,
    cllm_policy_faults_total: statistics.policyFaults,
    cllm_engine_steps_total: statistics.steps,
    cllm_engine_steps_interrupted_total: statistics.interruptedSteps,
    cllm_prompts_parted_total: each('by', partings, ({ prompts }) => prompts),
    cllm_prompt_tokens_parted_total: each('by', partings, ({ tokens }) => tokens),
    cllm_encodes_waiting: encodes?.waiting,
    cllm_encodes_total:
      encodes &&
      by('outcome', { encoded: encodes.encoded, failed: encodes.failed, found: encodes.found }),
    cllm_encode_seconds_total: encodes && encodes.encodeMs / 1000,
    cllm_encode_queue_seconds_total: encodes && encodes.queueMs / 1000,
    cllm_step_tokens_total: by('kind', { prefill: prefillTokens, decode: decodeTokens }),
    cllm_spec_decode_num_drafts_total: drafts,
    cllm_spec_decode_num_draft_tokens_total: draftTokens,
    cllm_spec_decode_num_accepted_tokens_total: acceptedTokens,
    cllm_engine_decode_seconds_total: statistics.decodeMs / 1000,
    cllm_engine_sample_seconds_total: statistics.sampleMs / 1000,
    cllm_engine_busy_seconds_total: statistics.busyMs / 1000,
    cllm_cache_hits_total: each('tier', tiers, ({ hits }) => hits),
    cllm_cache_hit_tokens_total: each('tier', tiers, ({ hitTokens }) => hitTokens),
    cllm_cache_misses_total: each('tier', tiers, ({ misses }) => misses),
    cllm_cache_saved_total: each('tier', tiers, ({ saved }) => saved),
    cllm_cache_skipped_total: each('tier', tiers, ({ skipped }) => skipped),
    cllm_cache_failed_total: each('tier', tiers, ({ failed }) => failed),
    cllm_cache_evictions_total: each('tier', tiers, ({ evictions }) => evictions),
    cllm_cache_save_seconds_total: each('tier', tiers, ({ saveMs }) => saveMs / 1000),
    cllm_cache_load_seconds_total: each('tier', tiers, ({ loadMs }) => loadMs / 1000),
    cllm_cluster_refused_messages_total: workers?.refusedMessages,
    cllm_requests_placed_total: workers?.placed,
    cllm_requests_moved_total:
      workers && by('exact', { true: workers.movedExactly, false: workers.movedInexactly }),
    cllm_step_time_seconds: statistics.stepMs,
    cllm_iteration_tokens_total: statistics.stepTokens,
    cllm_step_sequences: statistics.stepSequences,
  }
}

/** One value of each thing, with its name as a label. */
const each = <Thing>(
  label: string,
  things: Readonly<Record<string, Thing>>,
  valueOf: (thing: Thing) => number,
): LabelledFigure[] =>
  Object.entries(things).map(([name, thing]) => {
    return { value: valueOf(thing), more: { [label]: name } }
  })

/** Values, with their names as a label. */
const by = (label: string, values: Readonly<Record<string, number>>): LabelledFigure[] =>
  each(label, values, (value) => value)

/** The cache tiers that the engine has, by name. */
const tiersOf = ({ cache }: EngineStatistics): Readonly<Record<string, TierStatistics>> =>
  defined({ ram: cache?.ram, disk: cache?.disk })

const workerStates = ['up', 'draining', 'restarting', 'incompatible'] as const

const countStates = (workers: readonly WorkerStatistics[]): LabelledFigure[] =>
  workerStates.map((state) => {
    return { value: workers.filter((one) => one.state === state).length, more: { state } }
  })
