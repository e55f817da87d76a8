import type { Distribution } from '@cllm/core'
import type { Metric } from 'prom-client'

/** A histogram that is counted elsewhere: prom-client's own only takes single observations. */
export class ImportedHistogram {
  #distributions = new Map<string, Distribution>()

  constructor(
    readonly name: string,
    readonly help: string,
    /** Turns the engine's unit into the metric's. */
    private readonly factor: number,
  ) {}

  set(model: string, distribution: Distribution): void {
    this.#distributions.set(model, distribution)
  }

  reset(): void {
    this.#distributions.clear()
  }

  /** As prom-client's metrics describe themselves. */
  get() {
    const values = [...this.#distributions].flatMap(([model_name, distribution]) =>
      this.#series(model_name, distribution),
    )
    return { name: this.name, help: this.help, type: 'histogram', aggregator: 'sum', values }
  }

  #series(model_name: string, { bounds, counts, sum }: Distribution) {
    let count = 0
    const buckets = counts.map((more, index) => {
      count += more
      const bound = bounds[index]
      const le = bound === undefined ? '+Inf' : String(bound * this.factor)
      return { metricName: `${this.name}_bucket`, labels: { le, model_name }, value: count }
    })
    const labels = { model_name }
    return [
      ...buckets,
      { metricName: `${this.name}_sum`, labels, value: sum * this.factor },
      { metricName: `${this.name}_count`, labels, value: count },
    ]
  }

  /** For `Registry.registerMetric`, which asks its metrics for nothing but the above. */
  asMetric(): Metric {
    return this as unknown as Metric
  }
}
