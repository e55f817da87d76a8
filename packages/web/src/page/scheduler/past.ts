import type { ActivityFrame, ActivitySpan, Recording } from '@cllm/core'
import { figuresMs, type LiveState, shownMs, sum } from './live-state.js'

const frameMs = 1000

/**
 * Adds the flight recorder's past to a live view: steps, first tokens, and which requests were in slots. The
 * recorder knows neither the slot's number nor the begin of a prefill: both are guessed.
 */
export function withPast(state: LiveState, recording: Recording): LiveState {
  const { now, slots } = state
  const untilMs = Math.min(now, ...state.frames.map(({ atMs }) => atMs))
  // A recording ends at the time of the request for it, which is now.
  const toClock = (atMs: number): number => now - recording.durationMs + atMs
  const spans = (recording.engines ?? 1) > 1 ? [] : spansOf(recording, toClock, slots)
  const isBefore = ({ atMs, untilMs: end }: { atMs: number; untilMs: number }): boolean =>
    end > now - shownMs && atMs < untilMs
  const cut = (span: ActivitySpan): ActivitySpan => {
    return { ...span, untilMs: Math.min(span.untilMs, untilMs) }
  }
  const frames = framesOf(recording, toClock, now - figuresMs).filter(
    (frame) => frame.atMs < untilMs,
  )
  return {
    ...state,
    spans: [...spans.filter(isBefore).map(cut), ...state.spans],
    frames: [...frames, ...state.frames],
  }
}

type ToClock = (atMs: number) => number

/** A frame for each second since `since`, with its steps and first tokens. */
function framesOf({ steps, arrivals }: Recording, toClock: ToClock, since: number) {
  const firsts = arrivals.flatMap(({ atMs, firstTokenMs: ms }) =>
    ms === undefined ? [] : [{ atMs: atMs + ms, ms }],
  )
  const stepsBySecond = bySecond(steps, toClock, since)
  const firstsBySecond = bySecond(firsts, toClock, since)
  return [...new Set([...stepsBySecond.keys(), ...firstsBySecond.keys()])]
    .sort((a, b) => a - b)
    .map((from): Omit<ActivityFrame, 'spans'> => {
      const own = stepsBySecond.get(from) ?? []
      return {
        number: 0,
        atMs: from,
        untilMs: from + frameMs,
        steps: {
          count: own.length,
          ms: sum(own, ({ ms }) => ms),
          prefillTokens: sum(own, ({ chunks }) => sum(chunks, ([tokens]) => tokens)),
          decodeTokens: sum(own, ({ decode }) => decode),
          prefillSequences: sum(own, ({ chunks }) => chunks.length),
          decodeSequences: sum(own, ({ decode }) => decode),
        },
        firstTokensMs: (firstsBySecond.get(from) ?? []).map(({ ms }) => ms),
        itl: [],
        tenants: {},
        ended: [],
      }
    })
}

/** Groups records by second, in one pass: a recording may have a hundred thousand steps. */
function bySecond<T extends { readonly atMs: number }>(
  all: readonly T[],
  toClock: ToClock,
  since: number,
): ReadonlyMap<number, readonly T[]> {
  const found = new Map<number, T[]>()
  for (const one of all) {
    const from = Math.floor(toClock(one.atMs) / frameMs) * frameMs
    const own = found.get(from)
    if (own !== undefined) own.push(one)
    else if (from >= since) found.set(from, [one])
  }
  return found
}

/** Spans of requests in slots, guessed: each request takes the first free slot, and waits until there is one. */
function spansOf(
  { arrivals, durationMs }: Recording,
  toClock: ToClock,
  slots: LiveState['slots'],
): ActivitySpan[] {
  const freeAt = slots.map(() => -Infinity)
  const held = new Map(slots.flatMap(({ request }, slot) => (request ? [[request, slot]] : [])))
  return arrivals.flatMap(({ id, atMs, firstTokenMs, endMs = durationMs - atMs }) => {
    if (firstTokenMs === undefined || freeAt.length === 0) return []
    const [first, end] = [atMs + firstTokenMs, atMs + endMs]
    const free = freeAt.findIndex((until) => until <= atMs)
    const soonest = freeAt.indexOf(Math.min(...freeAt))
    const slot = held.get(id) ?? (free === -1 ? soonest : free)
    const from = Math.min(first, Math.max(atMs, freeAt[slot] ?? atMs))
    freeAt[slot] = end
    const span = (kind: ActivitySpan['kind'], start: number, until: number): ActivitySpan[] =>
      until > start
        ? [{ id, slot, kind, atMs: toClock(start), untilMs: toClock(until), tokens: 0 }]
        : []
    return [
      ...span('wait', atMs, from),
      ...span('prefill', from, first),
      ...span('decode', first, end),
    ]
  })
}
