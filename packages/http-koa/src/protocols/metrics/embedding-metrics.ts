import { Counter, Histogram, type Registry } from './prometheus.js'
import type { EmbeddedInput } from '../../engines/request-observer.js'
import { embeddingMetrics, type MetricEntry } from './metric-table.js'

type Name = keyof typeof embeddingMetrics

/** Counts the inputs that embeddings, reranking and scores are computed of. */
export class EmbeddingMetrics {
  readonly #inputs: Counter
  readonly #tokens: Counter
  readonly #latency: Histogram
  /** Tokens of all models. */
  tokens = 0
  /** Inputs of all models; each is a pass of its own. */
  inputs = 0

  constructor(registry: Registry) {
    const options = (name: Name) => {
      const { help, labels = [], buckets = [] }: MetricEntry = embeddingMetrics[name]
      const labelNames = ['model_name', ...labels]
      return { name, help, labelNames, registers: [registry], buckets: [...buckets] }
    }
    this.#inputs = new Counter(options('cllm_embedding_inputs_total'))
    this.#tokens = new Counter(options('cllm_embedding_tokens_total'))
    this.#latency = new Histogram(options('cllm_embedding_latency_seconds'))
  }

  onEmbedded({ model, tokens, ms, error }: EmbeddedInput): void {
    const outcome =
      error === undefined ? 'done' : error.code === 'cancelled' ? 'cancelled' : 'failed'
    this.#inputs.inc({ model_name: model, outcome })
    if (error !== undefined) return
    this.tokens += tokens
    this.inputs++
    this.#tokens.inc({ model_name: model }, tokens)
    this.#latency.observe({ model_name: model }, ms / 1000)
  }
}
