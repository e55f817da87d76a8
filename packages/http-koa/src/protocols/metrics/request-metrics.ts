import { type CllmError, defaultMaxTokens } from '@cllm/core'
import { type CountedMetrics, createMetrics, type Registry } from './create-metrics.js'
import {
  type EmbeddedInput,
  goesOn,
  type ObservedRequest,
  type RequestObserver,
  type RequestWatch,
} from '../../routes/koa-context.js'
import { embeddingMetrics, requestMetrics } from './metric-table.js'

type Counted = 'cllm_requests_total' | 'cllm_request_success_total'
/** The histograms, to which each request adds a value. */
type Name = Exclude<keyof typeof requestMetrics, Counted>

/**
 * Counts and times the requests of all protocols, as observed in this process and not in the engine's, and the
 * inputs of embeddings, reranking and scores.
 */
export class RequestMetrics implements RequestObserver {
  readonly #metrics: CountedMetrics<typeof requestMetrics & typeof embeddingMetrics>
  /** The policy of each model, as far as known. */
  readonly #policies = new Map<string, string>()

  /** Embedded inputs of all models, each of which took one forward pass, and their tokens. */
  readonly embedded = { inputs: 0, tokens: 0 }
  /** Queries the policy of a model that is in memory. */
  lookUpPolicy: (model: string) => Promise<string> = async () => ''

  constructor(registry: Registry) {
    this.#metrics = createMetrics(registry, { ...requestMetrics, ...embeddingMetrics })
  }

  onPolicy(model: string, policy: string): void {
    this.#policies.set(model, policy)
  }

  onEmbedded({ model: model_name, tokens, ms, error }: EmbeddedInput): void {
    const outcome =
      error === undefined ? 'done' : error.code === 'cancelled' ? 'cancelled' : 'failed'
    this.#metrics.cllm_embedding_inputs_total.inc({ model_name, outcome })
    if (error !== undefined) return
    this.embedded.tokens += tokens
    this.embedded.inputs++
    this.#metrics.cllm_embedding_tokens_total.inc({ model_name }, tokens)
    this.#metrics.cllm_embedding_latency_seconds.observe({ model_name }, ms / 1000)
  }

  onSubmit({ model, request, at }: ObservedRequest): RequestWatch {
    const metrics = this.#metrics
    let policy = this.#policies.get(model)
    const observe = (name: Name, value: number): void => {
      policy ??= this.#policies.get(model)
      // The model may have been loaded for this request, so that its policy is unknown yet.
      if (policy === undefined) void this.#observeLater(model, name, value)
      else metrics[name].observe({ model_name: model, policy }, value)
    }
    const { continued } = request
    // the first token of a request that continues another one is not the answer's first
    const hasTokens = continued !== undefined && continued.tokens.length > 0
    let hasStarted = false
    let last: number | undefined
    return {
      onEvent(event, now) {
        if (event.type === 'start') {
          hasStarted = true
          const most = request.maxTokens ?? defaultMaxTokens
          if (continued === undefined) observe('cllm_request_params_max_tokens', most)
        } else if (event.type === 'token') {
          if (last !== undefined) observe('cllm_inter_token_latency_seconds', (now - last) / 1000)
          else if (!hasTokens) observe('cllm_time_to_first_token_seconds', (now - at) / 1000)
          last = now
        } else if (event.type === 'end') {
          const { queueMs, prefillMs, decodeMs, totalMs } = event.timings
          const { promptTokens, cachedTokens, generatedTokens } = event.usage
          const reasons = { model_name: model, finished_reason: event.reason }
          metrics.cllm_request_success_total.inc(reasons)
          observe('cllm_e2e_request_latency_seconds', totalMs / 1000)
          observe('cllm_request_queue_time_seconds', queueMs / 1000)
          observe('cllm_request_prefill_time_seconds', prefillMs / 1000)
          observe('cllm_request_decode_time_seconds', decodeMs / 1000)
          observe('cllm_request_inference_time_seconds', (prefillMs + decodeMs) / 1000)
          if (generatedTokens > 1) {
            const each = decodeMs / (generatedTokens - 1) / 1000
            observe('cllm_request_time_per_output_token_seconds', each)
          }
          observe('cllm_request_prompt_tokens', promptTokens)
          observe('cllm_request_prefill_kv_computed_tokens', promptTokens - cachedTokens)
          observe('cllm_request_generation_tokens', generatedTokens)
        }
      },
      onEnd(_now, error) {
        if (error === goesOn) return
        const outcome = error === undefined ? 'done' : outcomeOf(error, hasStarted)
        const counted = { model_name: model, outcome, code: error?.code ?? '' }
        metrics.cllm_requests_total.inc(counted)
      },
    }
  }

  async #observeLater(model: string, name: Name, value: number): Promise<void> {
    const policy = await this.lookUpPolicy(model).catch(() => undefined)
    if (policy !== undefined) this.#policies.set(model, policy)
    const labels = { model_name: model, policy: this.#policies.get(model) ?? '' }
    this.#metrics[name].observe(labels, value)
  }
}

function outcomeOf(error: CllmError, hasStarted: boolean): string {
  if (error.code === 'cancelled') return 'cancelled'
  if (error.code === 'timeout') return 'timed_out'
  return hasStarted ? 'failed' : 'refused'
}
