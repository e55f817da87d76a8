import type { MetricEntry } from './metric-table.js'
import type { Distribution } from '@cllm/core'
import type * as Prometheus from 'prom-client'
import type { Metric } from 'prom-client'
import { createRequire } from 'node:module'

type MetricOf<Entry extends MetricEntry> = Entry extends { readonly type: 'gauge' }
  ? Gauge
  : Entry extends { readonly type: 'counter' }
    ? Counter
    : Entry extends { readonly buckets: readonly number[] }
      ? Histogram
      : ImportedHistogram

/** The metrics of a table, by their names. */
export type Metrics<Table extends Readonly<Record<string, MetricEntry>>> = {
  readonly [Name in keyof Table]: MetricOf<Table[Name]>
}

/** Makes the metrics of a table, in its order. */
export function createMetrics<Table extends Readonly<Record<string, MetricEntry>>>(
  registry: Registry,
  table: Table,
): Metrics<Table> {
  const made = Object.entries(table).map(([name, entry]) => [name, create(registry, name, entry)])
  return Object.fromEntries(made) as Metrics<Table>
}

function create(
  registry: Registry,
  name: string,
  { type, help, labels = [], buckets }: MetricEntry,
): Gauge | Counter | Histogram | ImportedHistogram {
  const options = { name, help, labelNames: ['model_name', ...labels], registers: [registry] }
  if (type === 'gauge') return new Gauge(options)
  if (type === 'counter') return new Counter(options)
  if (buckets !== undefined) return new Histogram({ ...options, buckets: [...buckets] })
  const imported = new ImportedHistogram(name, help, name.endsWith('_seconds') ? 0.001 : 1)
  // which asks its metrics for nothing but what this one has
  registry.registerMetric(imported as unknown as Metric)
  return imported
}

/** A histogram that is counted elsewhere: prom-client's own only takes single observations. */
class ImportedHistogram {
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
}

const part = createRequire(import.meta.url)

// prom-client's index loads OpenTelemetry and more that is not used here: eighty modules at each start.

const Counter = part('prom-client/lib/counter') as typeof Prometheus.Counter
type Counter = Prometheus.Counter
const Gauge = part('prom-client/lib/gauge') as typeof Prometheus.Gauge
type Gauge = Prometheus.Gauge
const Histogram = part('prom-client/lib/histogram') as typeof Prometheus.Histogram
type Histogram = Prometheus.Histogram
export const Registry = part('prom-client/lib/registry') as typeof Prometheus.Registry
export type Registry = Prometheus.Registry
