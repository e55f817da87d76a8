/** The description of a metric, for Prometheus and `docs/metrics.md`. */
export interface MetricEntry {
  readonly type: 'counter' | 'gauge' | 'histogram'
  readonly help: string
  /** Its labels besides `model_name`, which all metrics have. */
  readonly labels?: readonly string[]
  /** The bounds of a histogram that this process fills; the engine's histograms bring their own. */
  readonly buckets?: readonly number[]
}

/** A histogram that this process fills itself, with the bounds of its buckets. */
export type KeptHistogram = MetricEntry & { readonly buckets: readonly number[] }

// vLLM's buckets, so that figures can be compared (vllm/v1/metrics/loggers.py).
const firstTokenBuckets = [
  0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80,
  160, 640, 2560,
]
const tokenBuckets = [
  0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80,
]
const requestBuckets = [
  0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680,
]
const lengthBuckets = [
  1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000, 200_000,
]

const entryOf =
  (type: MetricEntry['type']) =>
  (help: string, ...labels: string[]): MetricEntry => ({ type, help, labels })
const gauge = entryOf('gauge')
const counter = entryOf('counter')
const fromEngine = entryOf('histogram')
const histogram =
  (buckets: readonly number[]) =>
  (help: string): KeptHistogram => ({ type: 'histogram', help, labels: ['policy'], buckets })
const firstTokens = histogram(firstTokenBuckets)
const tokens = histogram(tokenBuckets)
const times = histogram(requestBuckets)
const lengths = histogram(lengthBuckets)

/** Metrics of requests, as this process observes them. */
export const requestMetrics = {
  cllm_requests_total: counter(
    'Requests by how they ended; `code` is the error, if any.',
    'outcome',
    'code',
  ),
  cllm_request_success_total: counter(
    'Requests with a whole answer, by why it ended.',
    'finished_reason',
  ),
  cllm_time_to_first_token_seconds: firstTokens('From submission to the first token (TTFT).'),
  cllm_inter_token_latency_seconds: tokens('Between two tokens of a request (ITL).'),
  cllm_e2e_request_latency_seconds: times('From arrival to the end.'),
  cllm_request_queue_time_seconds: times('From arrival to admission.'),
  cllm_request_prefill_time_seconds: times('From admission to the first token.'),
  cllm_request_decode_time_seconds: times('From the first token to the last.'),
  cllm_request_inference_time_seconds: times('From admission to the last token.'),
  cllm_request_time_per_output_token_seconds: tokens(
    'Mean time between the tokens of a request (TPOT).',
  ),
  cllm_request_prompt_tokens: lengths('Prompt tokens of a request.'),
  cllm_request_prefill_kv_computed_tokens: lengths('Computed prompt tokens of a request.'),
  cllm_request_generation_tokens: lengths('Generated tokens of a request.'),
  cllm_request_params_max_tokens: lengths('The `max_tokens` of a request.'),
} as const satisfies Record<string, MetricEntry>

/** Metrics of embeddings, reranking and scores, as this process observes them. */
export const embeddingMetrics = {
  cllm_embedding_inputs_total: counter(
    'Inputs of embeddings, and pairs of reranking and scores, by how they ended.',
    'outcome',
  ),
  cllm_embedding_tokens_total: counter('Tokens of those inputs and pairs.'),
  cllm_embedding_latency_seconds: {
    type: 'histogram',
    help: 'From the call for one input or pair to its result.',
    buckets: firstTokenBuckets,
  },
} as const satisfies Record<string, MetricEntry>

/** Metrics that the engine reports when it is queried. */
export const engineMetrics = {
  cllm_engine_up: gauge('1 while the engine answers.'),
  cllm_model_loads_total: counter('Times that the model was loaded.'),
  cllm_model_swaps_total: counter('Times that the model was unloaded to make room for another.'),
  cllm_model_waiting: gauge('Requests and calls that wait for the model to be in memory.'),
  cllm_scheduler_info: gauge('1 for the policy in force.', 'policy'),
  cllm_scheduler_fallback: gauge('1 while the fallback stands in for a policy that failed.'),
  cllm_num_requests_running: gauge('Requests that have a slot.'),
  cllm_num_requests_waiting: gauge('Requests that wait for a slot.'),
  cllm_predicted_wait_seconds: gauge(
    'Predicted wait of a new request for a slot; the shortest of several workers.',
  ),
  cllm_workers: gauge('Workers behind the model, by state; absent for a single engine.', 'state'),
  cllm_worker_requests: gauge('Requests on a worker that have not ended.', 'worker'),
  cllm_requests_placed_total: counter('Requests that the router placed, moves included.'),
  cllm_requests_moved_total: counter(
    'Requests that went on at another worker; `exact` is whether it has the same fingerprint.',
    'exact',
  ),
  cllm_cluster_refused_messages_total: counter(
    'Messages dropped by this front: from no known worker, or from ended links.',
  ),
  cllm_slots: gauge('Slots by what they do.', 'state'),
  cllm_kv_cache_tokens: gauge('Tokens in slots: of requests that run, or kept for reuse.', 'use'),
  cllm_kv_cache_capacity_tokens: gauge('Tokens that all slots together can hold.'),
  cllm_kv_cache_free_tokens: gauge(
    'Tokens that still fit where all slots share their KV cells (`--kv-tokens`).',
  ),
  cllm_kv_cache_usage_perc: gauge('Share of the KV capacity in use by requests, 0 to 1.'),
  cllm_cache_config_info: gauge(
    '1; the KV capacity as blocks of `block_size` tokens, for endpoint pickers.',
    'block_size',
    'num_gpu_blocks',
  ),
  cllm_engine_requests_total: counter('Requests that the engine ended, by outcome.', 'outcome'),
  cllm_prompt_tokens_total: counter('Computed and cached prompt tokens of ended requests.'),
  cllm_prompt_tokens_cached_total: counter('Prompt tokens of ended requests, from a cache.'),
  cllm_prefix_cache_queries_total: counter(
    'Prompt tokens looked up: the same as `cllm_prompt_tokens_total`.',
  ),
  cllm_prefix_cache_hits_total: counter(
    'Prompt tokens found: the same as `cllm_prompt_tokens_cached_total`.',
  ),
  cllm_generation_tokens_total: counter('Generated tokens of ended requests.'),
  cllm_num_preemptions_total: counter('Preemptions of ended requests.'),
  cllm_policy_faults_total: counter('Policies that failed and were replaced by the fallback.'),
  cllm_engine_steps_total: counter('Steps: forward passes over a batch.'),
  cllm_engine_steps_interrupted_total: counter(
    "Steps of batches interrupted for a client's request, not in `cllm_engine_steps_total`.",
  ),
  cllm_prompts_parted_total: counter(
    'Prompts that differ from the previous call, so that tokens were computed again.',
    'by',
  ),
  cllm_prompt_tokens_parted_total: counter('Tokens computed again for such prompts.', 'by'),
  cllm_encodes_waiting: gauge('Images and sounds that wait for the encoder, or are in it.'),
  cllm_encodes_total: counter(
    'Images and sounds: encoded, failed, or found in the cache.',
    'outcome',
  ),
  cllm_encode_seconds_total: counter('Time spent encoding images and sounds, beside the steps.'),
  cllm_encode_queue_seconds_total: counter('Time that images and sounds waited for the encoder.'),
  cllm_step_tokens_total: counter('Tokens that steps computed, of prompts and of answers.', 'kind'),
  cllm_spec_decode_num_drafts_total: counter('How often drafts of a request were verified.'),
  cllm_spec_decode_num_draft_tokens_total: counter('Draft tokens that were verified.'),
  cllm_spec_decode_num_accepted_tokens_total: counter('Draft tokens that were accepted.'),
  cllm_engine_decode_seconds_total: counter("Time in the backend's forward passes."),
  cllm_engine_sample_seconds_total: counter("Time in the backend's sampling."),
  cllm_engine_busy_seconds_total: counter('Time in which the engine loop had work to do.'),
  cllm_cache_states: gauge('Saved states of slots, by tier.', 'tier'),
  cllm_cache_bytes: gauge('Bytes of saved states.', 'tier'),
  cllm_cache_limit_bytes: gauge('Limit for the bytes of saved states.', 'tier'),
  cllm_cache_hits_total: counter('Requests that began with a saved state.', 'tier'),
  cllm_cache_hit_tokens_total: counter('Prompt tokens restored from saved states.', 'tier'),
  cllm_cache_misses_total: counter('Requests that found no cached prefix.', 'tier'),
  cllm_cache_saved_total: counter('States that were saved in the tier.', 'tier'),
  cllm_cache_skipped_total: counter(
    'States not saved, because running requests would have waited too long.',
    'tier',
  ),
  cllm_cache_failed_total: counter('States that could not be saved or restored.', 'tier'),
  cllm_cache_evictions_total: counter('States that were dropped to make room.', 'tier'),
  cllm_cache_save_seconds_total: counter('Time spent saving states.', 'tier'),
  cllm_cache_load_seconds_total: counter('Time spent restoring states.', 'tier'),
  cllm_cache_longest_pause_seconds: gauge(
    'Longest pause of decoding requests for saving or restoring a state, since the start.',
  ),
  cllm_responses_unkept_total: counter('Responses and conversations that could not be written.'),
  cllm_recorder_entries: gauge('Arrivals and steps in the flight recorder.', 'kind'),
  cllm_recorder_bytes: gauge('Approximate memory of the flight recorder.'),
  cllm_step_time_seconds: fromEngine('How long steps took.'),
  cllm_iteration_tokens_total: fromEngine('Tokens computed in a step.'),
  cllm_step_sequences: fromEngine('Requests that took part in a step.'),
} as const satisfies Record<string, MetricEntry>

/** The metrics of `GET /metrics/load`, which needs no key. */
export const loadMetrics = [
  'cllm_num_requests_waiting',
  'cllm_num_requests_running',
  'cllm_kv_cache_usage_perc',
  'cllm_predicted_wait_seconds',
  'cllm_cache_config_info',
] as const satisfies readonly (keyof typeof engineMetrics)[]

/** Every metric of `GET /metrics`. `docs/metrics.md` is generated from this table. */
export const metricTable: Readonly<Record<string, MetricEntry>> = {
  ...requestMetrics,
  ...embeddingMetrics,
  ...engineMetrics,
}
