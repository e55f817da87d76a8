import type { EmbeddedInput } from '../../engines/request-observer.js'
import { createMetrics, type Metrics } from './create-metrics.js'
import { embeddingMetrics } from './metric-table.js'
import type { Registry } from './prometheus.js'

/** Counts the inputs that embeddings, reranking and scores are computed of. */
export class EmbeddingMetrics {
  readonly #metrics: Metrics<typeof embeddingMetrics>
  /** Tokens of all models. */
  tokens = 0
  /** Inputs of all models; each is a pass of its own. */
  inputs = 0

  constructor(registry: Registry) {
    this.#metrics = createMetrics(registry, embeddingMetrics)
  }

  onEmbedded({ model, tokens, ms, error }: EmbeddedInput): void {
    const outcome =
      error === undefined ? 'done' : error.code === 'cancelled' ? 'cancelled' : 'failed'
    this.#metrics.cllm_embedding_inputs_total.inc({ model_name: model, outcome })
    if (error !== undefined) return
    this.tokens += tokens
    this.inputs++
    this.#metrics.cllm_embedding_tokens_total.inc({ model_name: model }, tokens)
    this.#metrics.cllm_embedding_latency_seconds.observe({ model_name: model }, ms / 1000)
  }
}
