import { randomGamma } from 'd3-random'
import { type RandomSource, randomSource } from '../statistics/random.js'
import type { Dataset, WorkItem } from '../workload/work-item.js'
import { defined } from '@cllm/core'
import { promptText } from '../workload/prompt-text.js'
import type { LoadOptions, RunOptions, TenantShare } from './load-options.js'

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

/** A request that is ready to be sent. */
export interface Job {
  readonly item: WorkItem
  readonly prompt: string
  /** Sets its prompts apart from those of other runs, and of the same item before. */
  readonly salt: string
  readonly tenant: string
  /** The tools that it offers, now and in further turns. */
  readonly tools?: readonly string[]
  readonly cancelAfter?: number
  readonly slowReadMs: number
}

/** The job at an index: a function of the load's seed and the run's salt. */
export function makeJob(index: number, load: LoadOptions, run: RunOptions): Job {
  const { seed, cancelRate = 0, slowReaders = 0, slowReadMs = 0, tenants = [] } = load
  const item = load.dataset.item(run.firstItem + index)
  const lap = lapOf(index, load)
  const salt = lap === 0 ? run.salt : `${run.salt}/lap ${lap}`
  const random = randomSource(seed, 'job', index)
  const tenant = pickTenant(tenants, random())
  const isCancelled = random() < cancelRate
  const cancelAfter = Math.max(1, Math.floor(random() * item.outputTokens))
  return {
    item,
    prompt: promptText(item, seed, salt),
    salt,
    tenant,
    // A plain chat beside programs has no tools.
    ...(item.calls !== undefined && defined({ tools: load.dataset.tools })),
    ...(isCancelled ? { cancelAfter } : {}),
    slowReadMs: random() < slowReaders ? slowReadMs : 0,
  }
}

/** How often the dataset has begun anew before a run's job at this index. */
export const lapOf = (index: number, { dataset }: Pick<LoadOptions, 'dataset'>): number =>
  Math.floor(index / (dataset.size ?? Infinity))

/** The tenant at a place from 0 to 1, by weight. */
export function pickTenant(tenants: readonly TenantShare[], share: number): string {
  let left = share * tenants.reduce((sum, { weight }) => sum + weight, 0)
  return tenants.find(({ weight }) => (left -= weight) < 0)?.name ?? tenants.at(-1)?.name ?? ''
}
