import { ImportedHistogram } from './imported-histogram.js'
import type { MetricEntry } from './metric-table.js'
import { Counter, Gauge, Histogram, type Registry } from './prometheus.js'

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
  registry.registerMetric(imported.asMetric())
  return imported
}
