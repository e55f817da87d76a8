import { type ChatMessage, defined } from '@cllm/core'
import type { SimulatedAnswer, SimulatedEncodes, SimulatedRequest } from '@cllm/simulation'
import { arrivals, lapOf, pickTenant, traceTimes } from '../load/jobs.js'
import type { LoadOptions, TenantShare } from '../load/load-options.js'
import { randomSource } from '../statistics/random.js'
import { isCall, partsOf, segmentsOf, tokenIds, type WorkItem } from '../workload/work-item.js'

/** Images of a simulated load: which share of the requests has one, of how many tokens, and what encoding it costs. */
export interface SimulatedImages extends SimulatedEncodes {
  readonly share: number
  readonly tokens: number
}

/** What a load must tell to be simulated. */
export type SimulatedLoadOptions = Pick<LoadOptions, 'shape' | 'dataset' | 'seed' | 'tenants'> & {
  readonly requests: number
  /** Models that requests ask for, by weight; a program's requests ask for one. Default: one. */
  readonly models?: readonly TenantShare[]
  readonly images?: Pick<SimulatedImages, 'share' | 'tokens'>
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
  const { shape, dataset, seed, requests: count, tenants = [], models = [], images } = options
  const items = Array.from({ length: count }, (_, index) => dataset.item(index))
  const laps = lapOf(Math.max(0, count - 1), options)
  const programs = items.map((_, index) => index)
  const timeOf = timesOf(options)
  const pick = (shares: readonly TenantShare[], what: string, index: number) =>
    shares.length === 0 ? undefined : pickTenant(shares, randomSource(seed, what, index)())
  /** The request of an item; one that follows another is of the same tenant, for the same model. */
  const requestAt = (index: number, arrival: number, before?: SimulatedRequest) => {
    const item = items[index] as WorkItem
    const { request, outputTokens: maxTokens, retainMs } = item
    const prompt = () => tokenIds(item, lapOf(index, options))
    const isSeen = images !== undefined && randomSource(seed, 'image', index)() < images.share
    const at = Math.max(0, item.inputTokens - 1)
    const image = isSeen && { type: 'image' as const, at, data: `${images.tokens} ${index}` }
    const tenant = before === undefined ? pick(tenants, 'job', index) : before.tenant
    const model = before === undefined ? pick(models, 'model', index) : before.model
    const session = isCall(item) ? String(programs[index]) : undefined
    const media = image ? [image] : undefined
    const chosen = defined({ session, media, retainMs, tenant, model })
    return { id: String(index), arrival, prompt, maxTokens, ...request, ...chosen }
  }
  /** The next turn of a conversation whose pauses are known. */
  const followUp = ({ request, error }: SimulatedAnswer, now: number) => {
    const last = items[Number(request.id)]
    // A client that has no answer says nothing to it.
    if (error !== undefined || last?.next?.pauseMs === undefined) return undefined
    const begin = programs[Number(request.id)] ?? 0
    const index = items.push(conversation(last, last.next)) - 1
    programs.push(begin)
    const messages = last.calls === undefined ? undefined : [callMessage(last.calls)]
    return { ...requestAt(index, now + last.next.pauseMs, request), ...defined({ messages }) }
  }
  let next = shape.kind === 'closed' ? Math.min(shape.concurrency, count) : count
  return {
    items,
    programs,
    laps,
    requests: Array.from({ length: next }, (_, index) => requestAt(index, timeOf(index))),
    after: (ended, now) =>
      followUp(ended, now) ?? (next < count ? requestAt(next++, now) : undefined),
  }
}

/** When the requests come that follow no other, by their number. */
function timesOf({ shape, dataset, requests, seed }: SimulatedLoadOptions) {
  if (shape.kind === 'closed') return (index: number) => (shape.rampMs * index) / shape.concurrency
  if (shape.kind === 'trace') return traceTimes(dataset, requests)
  const next = arrivals({ ...shape, random: randomSource(seed, 'arrivals') })
  return () => next.next().value
}

const callMessage = (name: string): ChatMessage => ({
  role: 'assistant',
  content: '',
  tool_calls: [{ type: 'function', function: { name, arguments: {} } }],
})

/** A follow-up with all that was said before it, for a simulated model. */
function conversation(last: WorkItem, next: WorkItem): WorkItem {
  const { calls, outputTokens } = last
  const call = calls === undefined ? [] : [{ key: '', tokens: 1, call: calls }]
  const answer = [...call, { key: '', tokens: outputTokens - call.length }]
  const inputTokens = last.inputTokens + outputTokens + next.inputTokens
  return { ...next, prompt: [...partsOf(last), ...answer, ...segmentsOf(next)], inputTokens }
}
