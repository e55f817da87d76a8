import { createRequire } from 'node:module'
import type * as Prometheus from 'prom-client'

const part = createRequire(import.meta.url)

// prom-client's index loads OpenTelemetry and more that is not used here: eighty modules at each start.

export const Counter = part('prom-client/lib/counter') as typeof Prometheus.Counter
export type Counter = Prometheus.Counter
export const Gauge = part('prom-client/lib/gauge') as typeof Prometheus.Gauge
export type Gauge = Prometheus.Gauge
export const Histogram = part('prom-client/lib/histogram') as typeof Prometheus.Histogram
export type Histogram = Prometheus.Histogram
export const Registry = part('prom-client/lib/registry') as typeof Prometheus.Registry
export type Registry = Prometheus.Registry
