import type { SimulatedRequest, SimulatedAnswer } from '@cllm/simulation'
import { arrivals, traceTimes } from '../load/arrivals.js'
import { pickTenant } from '../load/job.js'
import type { LoadOptions } from '../load/load-options.js'
import { randomSource } from '../statistics/random-source.js'
import type { WorkItem } from '../workload/work-item.js'
import { segmentsOf, tokenIds } from './token-ids.js'

/** What a load must tell to be simulated. */
export type SimulatedLoadOptions = Pick<LoadOptions, 'shape' | 'dataset' | 'seed' | 'tenants'> & {
  readonly requests: number
}

/** A load for `simulateLoad`. */
export interface SimulatedLoad {
  /** Requests with an arrival time known from the start. */
  readonly requests: readonly SimulatedRequest[]
  /** The next request of a program or client whose last one ended. */
  readonly after: (ended: SimulatedAnswer, now: number) => SimulatedRequest | undefined
  /** What each request asks, by its number; follow-ups join when they are sent. */
  readonly items: readonly WorkItem[]
  /** For each request the number of its program's first. */
  readonly programs: readonly number[]
  /** How often the dataset began anew. */
  readonly laps: number
}

/** The requests of a load, as `cllm bench serve` would send them, for a simulation. */
export function simulatedLoad(options: SimulatedLoadOptions): SimulatedLoad {
  const { shape, requests: count } = options
  const items = Array.from({ length: count }, (_, index) => options.dataset.item(index))
  const laps = Math.ceil(count / (options.dataset.size ?? count)) - 1
  const programs = items.map((_, index) => index)
  /** The next turn of a conversation whose pauses are known. */
  const followUp = ({ request }: SimulatedAnswer, now: number): SimulatedRequest | undefined => {
    const last = items[Number(request.id)]
    if (last?.next?.pauseMs === undefined) return undefined
    const begin = programs[Number(request.id)] ?? 0
    const index = items.push(conversation(last, last.next)) - 1
    programs.push(begin)
    const { tenant } = request
    const plain = requestAt(index, now + last.next.pauseMs, items, { ...options, tenants: [] })
    return tenant === undefined ? plain : { ...plain, tenant }
  }
  if (shape.kind === 'closed') {
    const first = Math.min(shape.concurrency, count)
    let next = first
    return {
      items,
      programs,
      laps,
      requests: Array.from({ length: first }, (_, client) =>
        requestAt(client, (shape.rampMs * client) / shape.concurrency, items, options),
      ),
      after: (ended, now) =>
        followUp(ended, now) ?? (next < count ? requestAt(next++, now, items, options) : undefined),
    }
  }
  const timeOf =
    shape.kind === 'open' ? arrivalTimes(options, shape) : traceTimes(options.dataset, count)
  const requests = items.map((_, index) => requestAt(index, timeOf(index), items, options))
  return { items, programs, laps, requests, after: followUp }
}

/** A follow-up with all that was said before it, for a simulated model. */
function conversation(last: WorkItem, next: WorkItem): WorkItem {
  const answer = { key: '', tokens: last.outputTokens }
  const inputTokens = last.inputTokens + last.outputTokens + next.inputTokens
  return { ...next, prompt: [...segmentsOf(last), answer, ...segmentsOf(next)], inputTokens }
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
