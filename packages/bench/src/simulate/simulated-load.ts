import type { SimulatedRequest, SimulatedAnswer } from '@cllm/simulation'
import { arrivals, traceTimes } from '../load/arrivals.js'
import { pickTenant } from '../load/job.js'
import type { LoadOptions } from '../load/load-options.js'
import { randomSource } from '../statistics/random-source.js'
import type { WorkItem } from '../workload/work-item.js'
import { tokenIds } from './token-ids.js'

/** What a load must tell to be simulated. */
export type SimulatedLoadOptions = Pick<LoadOptions, 'shape' | 'dataset' | 'seed' | 'tenants'> & {
  readonly requests: number
}

/** A load for `simulateLoad`. */
export interface SimulatedLoad {
  /** Requests with an arrival time known from the start. */
  readonly requests: readonly SimulatedRequest[]
  /** The next request of a client whose last one ended. */
  readonly after?: (ended: SimulatedAnswer, now: number) => SimulatedRequest | undefined
  readonly items: readonly WorkItem[]
  /** How often the dataset began anew. */
  readonly laps: number
}

/** The requests of a load, as `cllm bench serve` would send them, for a simulation. */
export function simulatedLoad(options: SimulatedLoadOptions): SimulatedLoad {
  const { shape, requests: count } = options
  const items = Array.from({ length: count }, (_, index) => options.dataset.item(index))
  const laps = Math.ceil(count / (options.dataset.size ?? count)) - 1
  if (shape.kind === 'closed') {
    const first = Math.min(shape.concurrency, count)
    let next = first
    return {
      items,
      laps,
      requests: Array.from({ length: first }, (_, client) =>
        requestAt(client, (shape.rampMs * client) / shape.concurrency, items, options),
      ),
      after: (_, now) => (next < count ? requestAt(next++, now, items, options) : undefined),
    }
  }
  const timeOf =
    shape.kind === 'open' ? arrivalTimes(options, shape) : traceTimes(options.dataset, count)
  const requests = items.map((_, index) => requestAt(index, timeOf(index), items, options))
  return { items, laps, requests }
}

function requestAt(
  index: number,
  arrival: number,
  items: readonly WorkItem[],
  { dataset, seed, tenants = [] }: SimulatedLoadOptions,
): SimulatedRequest {
  const item = items[index] as WorkItem
  const lap = Math.floor(index / (dataset.size ?? Infinity))
  const prompt = () => tokenIds(item, lap)
  const { request, outputTokens: maxTokens } = item
  const plain = { id: String(index), arrival, prompt, maxTokens, ...request }
  if (tenants.length === 0) return plain
  return { ...plain, tenant: pickTenant(tenants, randomSource(seed, 'job', index)()) }
}

function arrivalTimes(
  { requests, seed }: SimulatedLoadOptions,
  shape: Extract<LoadOptions['shape'], { kind: 'open' }>,
): (index: number) => number {
  const next = arrivals({ ...shape, random: randomSource(seed, 'arrivals') })
  const times = Array.from({ length: requests }, () => next.next().value)
  return (index) => times[index] ?? 0
}
