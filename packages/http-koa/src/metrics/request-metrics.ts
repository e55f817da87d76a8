import type { CllmError, GenerateEvent } from '@cllm/core'
import { Counter, Histogram, type Registry } from 'prom-client'
import type { ObservedRequest, RequestObserver, RequestWatch } from '../observe/request-observer.js'
import { requestMetrics, type MetricEntry } from './metric-table.js'

type Name = keyof typeof requestMetrics
type Labels = Readonly<Record<'model_name' | 'policy', string>>

/** What the engine takes where a request does not say. */
const defaultMaxTokens = 100

/** Counts what the requests of all protocols go through, in this process and not in the engine's. */
export class RequestMetrics implements RequestObserver {
  readonly #counters = new Map<string, Counter>()
  readonly #histograms = new Map<string, Histogram>()
  /** What is in force for a model, as far as is known. */
  readonly #policies = new Map<string, string>()

  constructor(registry: Registry) {
    for (const [name, entry] of Object.entries<MetricEntry>(requestMetrics)) {
      const { type, help, labels = [], buckets = [] } = entry
      const labelNames = ['model_name', ...labels]
      const options = { name, help, labelNames, registers: [registry] }
      if (type === 'counter') this.#counters.set(name, new Counter(options))
      else this.#histograms.set(name, new Histogram({ ...options, buckets: [...buckets] }))
    }
  }

  submitted({ model, request, at }: ObservedRequest): RequestWatch {
    const labels = { model_name: model, policy: this.#policies.get(model) ?? '' }
    let hasStarted = false
    let last: number | undefined
    return {
      heard: (event, now) => {
        if (event.type === 'start') {
          hasStarted = true
          const most = request.maxTokens ?? defaultMaxTokens
          this.#observe('cllm_request_params_max_tokens', labels, most)
        } else if (event.type === 'token') {
          if (last === undefined) {
            this.#observe('cllm_time_to_first_token_seconds', labels, (now - at) / 1000)
          } else {
            this.#observe('cllm_inter_token_latency_seconds', labels, (now - last) / 1000)
          }
          last = now
        } else this.#whole(event, labels)
      },
      ended: (_now, error) => {
        const outcome = outcomeOf(error, hasStarted)
        const counted = { model_name: model, outcome, code: error?.code ?? '' }
        this.#counters.get('cllm_requests_total' satisfies Name)?.inc(counted)
      },
    }
  }

  policySet(model: string, policy: string): void {
    this.#policies.set(model, policy)
  }

  #whole(end: Extract<GenerateEvent, { type: 'end' }>, labels: Labels): void {
    const { usage, timings, reason } = end
    const { queueMs, prefillMs, decodeMs, totalMs } = timings
    const { promptTokens, cachedTokens, generatedTokens } = usage
    const reasons = { model_name: labels.model_name, finished_reason: reason }
    this.#counters.get('cllm_request_success_total' satisfies Name)?.inc(reasons)
    this.#observe('cllm_e2e_request_latency_seconds', labels, totalMs / 1000)
    this.#observe('cllm_request_queue_time_seconds', labels, queueMs / 1000)
    this.#observe('cllm_request_prefill_time_seconds', labels, prefillMs / 1000)
    this.#observe('cllm_request_decode_time_seconds', labels, decodeMs / 1000)
    this.#observe('cllm_request_inference_time_seconds', labels, (prefillMs + decodeMs) / 1000)
    if (generatedTokens > 1) {
      const each = decodeMs / (generatedTokens - 1) / 1000
      this.#observe('cllm_request_time_per_output_token_seconds', labels, each)
    }
    this.#observe('cllm_request_prompt_tokens', labels, promptTokens)
    this.#observe('cllm_request_prefill_kv_computed_tokens', labels, promptTokens - cachedTokens)
    this.#observe('cllm_request_generation_tokens', labels, generatedTokens)
  }

  #observe(name: Name, labels: Labels, value: number): void {
    this.#histograms.get(name)?.observe(labels, value)
  }
}

function outcomeOf(error: CllmError | undefined, hasStarted: boolean): string {
  if (error === undefined) return 'done'
  if (error.code === 'cancelled') return 'cancelled'
  if (error.code === 'timeout') return 'timed_out'
  return hasStarted ? 'failed' : 'refused'
}
