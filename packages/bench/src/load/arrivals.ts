import { randomGamma } from 'd3-random'
import type { RandomSource } from '../statistics/random-source.js'
import type { Dataset } from '../workload/work-item.js'

/** The arrival process of an open loop. */
export interface ArrivalOptions {
  /** Requests per second. */
  readonly rate: number
  /**
   * Shape of the gamma distribution of the gaps, as in vLLM's benchmark: 1 is a Poisson process
   * (default), smaller is burstier, larger more even, Infinity exactly even.
   */
  readonly burstiness?: number
  /** Milliseconds in which the rate grows linearly from 0; default 0. */
  readonly rampMs?: number
  readonly random: RandomSource
}

/** An endless sequence of the intended send times, in milliseconds. */
export function* arrivals(options: ArrivalOptions): Generator<number, never> {
  const { rate, burstiness = 1, rampMs = 0, random } = options
  const gap = Number.isFinite(burstiness)
    ? randomGamma.source(random)(burstiness, 1 / burstiness)
    : () => 1
  let requests = 0
  for (;;) {
    requests += gap()
    yield timeOf(requests, rate / 1000, rampMs)
  }
}

/** The time by which `requests` are sent; `rate` is per millisecond, reached after the ramp. */
function timeOf(requests: number, rate: number, rampMs: number): number {
  const duringRamp = (rate * rampMs) / 2
  return requests < duringRamp
    ? Math.sqrt((2 * rampMs * requests) / rate)
    : rampMs / 2 + requests / rate
}

/**
 * When the items of a trace are sent, by their index. A trace that begins anew goes on after its last request, at its
 * mean distance.
 *
 * @param count - as many as are sent
 */
export function traceTimes(dataset: Dataset, count: number): (index: number) => number {
  const { size = count } = dataset
  const last = dataset.item(size - 1).atMs ?? 0
  const lapMs = (last * size) / Math.max(1, size - 1)
  return (index) => (dataset.item(index).atMs ?? 0) + lapMs * Math.floor(index / size)
}
