import { sum } from './statistics.mjs'

const names = ['waits', 'slot is filled', 'own steps', 'steps of others', 'between', 'outside']

/** The names of the shares, in their order. */
export const shareNames = names

/** The {@link sharesOf} of a request that a server has answered; `ttft` as the client measured it. */
export async function firstTokenShares(server, id, ttft) {
  const response = await fetch(`${server.url}/requests/${id}`)
  if (!response.ok) return undefined
  const {
    data: { timeline },
  } = await response.json()
  return sharesOf(timeline, ttft)
}

/**
 * Where the time until a request's first token went, in milliseconds: waiting for its turn, filling its slot (what that
 * holds is saved, or a state restored), steps with its prompt, steps without it while it had
 * a slot, between these, and outside of the engine.
 */
export function sharesOf(timeline, ttft) {
  const first = timeline.find(({ type }) => type === 'first_token')?.at_ms ?? ttft
  const before = timeline.filter(({ at_ms: at }) => at < first)
  const of = (kind) => sum(before.filter(({ type }) => type === kind).map(spanOf))
  const admitted = before.find(({ type }) => type === 'admitted')?.at_ms ?? 0
  const next = before.find(({ type }) => type === 'prefill' || type === 'paused')?.at_ms
  const filled = Math.max(0, (next ?? admitted) - admitted)
  const known = [of('waited'), filled, of('prefill'), of('paused')]
  return [...known, Math.max(0, first - sum(known)), ttft - first]
}

const spanOf = ({ at_ms: from, until_ms: until }) => until - from
