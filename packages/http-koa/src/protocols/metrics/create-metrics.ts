import type { MetricEntry } from './metric-table.js'
import type { Distribution } from '@cllm/core'
import type * as Prometheus from 'prom-client'
import type { Metric } from 'prom-client'
import { createRequire } from 'node:module'

type Table = Readonly<Record<string, MetricEntry>>

/** The metrics of a table that this process counts, by their names. */
export type CountedMetrics<Counted extends Table> = {
  readonly [Name in keyof Counted]: Counted[Name] extends { readonly buckets: readonly number[] }
    ? Histogram
    : Counter
}

/** Makes the metrics of a table that this process counts, in the table's order. */
export function createMetrics<Counted extends Table>(
  registry: Registry,
  table: Counted,
): CountedMetrics<Counted> {
  const made = Object.entries<MetricEntry>(table).map(([name, { help, labels = [], buckets }]) => {
    const options = { name, help, labelNames: ['model_name', ...labels], registers: [registry] }
    const isHistogram = buckets !== undefined
    return [
      name,
      isHistogram ? new Histogram({ ...options, buckets: [...buckets] }) : new Counter(options),
    ]
  })
  return Object.fromEntries(made) as CountedMetrics<Counted>
}

/** One of several values of a metric for a model. */
export interface LabelledFigure {
  readonly value: number
  /** Its labels besides the model's name. */
  readonly more?: Readonly<Record<string, string>>
}

/** A metric's data for a model: a value, several, or a distribution; undefined: none. */
export type Figure = number | readonly LabelledFigure[] | Distribution | undefined

/** The data for a model, by the names of metrics. */
export type Figures<Name extends string> = { readonly [Each in Name]?: Figure }

/** Writes the metrics of a table that are counted elsewhere, such as in engines, in Prometheus' text format. */
export async function tellMetrics<Name extends string>(
  table: Readonly<Record<Name, MetricEntry>>,
  told: readonly (readonly [model: string, figures: Figures<Name>])[],
): Promise<string> {
  const registry = new Registry()
  for (const [name, { type, help }] of Object.entries<MetricEntry>(table)) {
    const values = told.flatMap(([model_name, figures]) =>
      samplesOf(name, figures[name as Name], { model_name }),
    )
    const get = () => ({ name, help, type, aggregator: 'sum', values })
    // the registry uses no other members of its metrics
    registry.registerMetric({ name, get } as unknown as Metric)
  }
  return await registry.metrics()
}

/** The samples of a metric in prom-client's format. */
function samplesOf(name: string, figure: Figure, labels: { readonly model_name: string }) {
  if (figure === undefined) return []
  if (typeof figure === 'number') return [{ labels, value: figure }]
  if (!('bounds' in figure)) {
    return figure.map(({ value, more }) => ({ labels: { ...labels, ...more }, value }))
  }
  const { bounds, counts, sum } = figure
  // engines report times in milliseconds
  const factor = name.endsWith('_seconds') ? 0.001 : 1
  let count = 0
  const buckets = counts.map((more, index) => {
    count += more
    const bound = bounds[index]
    const le = bound === undefined ? '+Inf' : String(bound * factor)
    return { metricName: `${name}_bucket`, labels: { le, ...labels }, value: count }
  })
  return [
    ...buckets,
    { metricName: `${name}_sum`, labels, value: sum * factor },
    { metricName: `${name}_count`, labels, value: count },
  ]
}

const part = createRequire(import.meta.url)

// Parts are loaded one by one, as prom-client's index loads eighty unused modules, such as OpenTelemetry's.

const Counter = part('prom-client/lib/counter') as typeof Prometheus.Counter
type Counter = Prometheus.Counter
const Histogram = part('prom-client/lib/histogram') as typeof Prometheus.Histogram
type Histogram = Prometheus.Histogram
export const Registry = part('prom-client/lib/registry') as typeof Prometheus.Registry
export type Registry = Prometheus.Registry
