import type { ActivityFrame, EngineActivity, EngineStatistics } from '@cllm/core'
import { sumStatistics, type Arrival, type RecordingParts, pastOf } from '@cllm/host'

/** Waiting requests that are told, as of one engine. */
const mostQueued = 32

/**
 * What several engines did, as of one: their slots follow each other, and their times are by the clock of
 * the first one, whatever theirs say. What they did since the last look becomes one frame.
 *
 * @param cursor the number of that frame, and what the next look asks with
 */
export function mergeActivities(all: readonly EngineActivity[], cursor: number): EngineActivity {
  const [first, ...others] = all as readonly [EngineActivity, ...EngineActivity[]]
  if (others.length === 0) return { ...first, cursor }
  const aligned: EngineActivity[] = []
  let slots = 0
  for (const one of all) {
    aligned.push(activityAt(one, first.now - one.now, slots))
    slots += one.slots.length
  }
  const sum = (of: (one: EngineActivity) => number) =>
    all.reduce((total, one) => total + of(one), 0)
  const frames = aligned.flatMap((one) => one.frames)
  const pools = all
    .map(({ kvPool, cache }) => ({ ...(kvPool && { kvPool }), ...(cache && { cache }) }))
    .reduce((total, one) => sumStatistics(total, one))
  return {
    ...first,
    ...pools,
    cursor,
    lost: sum(({ lost }) => lost),
    slots: aligned.flatMap((one) => one.slots),
    waiting: sum(({ waiting }) => waiting),
    queue: aligned
      .flatMap(({ queue }) => queue)
      .sort((one, other) => one.arrival - other.arrival)
      .slice(0, mostQueued),
    frames: frames.length === 0 ? [] : [frameOf(frames, cursor)],
  }
}

/** By another clock, with its slots behind those of others. */
function activityAt(activity: EngineActivity, ms: number, slots: number): EngineActivity {
  return {
    ...activity,
    slots: activity.slots.map((one) => ({ ...one, slot: one.slot + slots })),
    queue: activity.queue.map((one) => ({ ...one, arrival: one.arrival + ms })),
    frames: activity.frames.map((frame) => ({
      ...frame,
      atMs: frame.atMs + ms,
      untilMs: frame.untilMs + ms,
      spans: frame.spans.map(({ slot, ...span }) => ({
        ...span,
        ...(slot !== undefined && { slot: slot + slots }),
        atMs: span.atMs + ms,
        untilMs: span.untilMs + ms,
      })),
    })),
  }
}

function frameOf(frames: readonly ActivityFrame[], number: number): ActivityFrame {
  const itl = sumsOf(frames.flatMap((frame) => frame.itl))
  const tenants = sumsOf(frames.flatMap((frame) => Object.entries(frame.tenants)))
  return {
    number,
    atMs: Math.min(...frames.map(({ atMs }) => atMs)),
    untilMs: Math.max(...frames.map(({ untilMs }) => untilMs)),
    spans: frames.flatMap(({ spans }) => spans),
    steps: frames.map(({ steps }) => steps).reduce((sum, one) => sumStatistics(sum, one)),
    firstTokensMs: frames.flatMap(({ firstTokensMs }) => firstTokensMs),
    itl: [...itl].sort(([one], [other]) => one - other),
    tenants: Object.fromEntries(tenants),
    ended: frames.flatMap(({ ended }) => ended),
  }
}

/** The counts of each key together; the names of tenants may be any words. */
function sumsOf<Key>(counts: readonly (readonly [Key, number])[]): Map<Key, number> {
  const sums = new Map<Key, number>()
  for (const [key, count] of counts) sums.set(key, (sums.get(key) ?? 0) + count)
  return sums
}

/** Cursors that can be continued from; who has an older one begins anew. */
const most = 64

/** How far a client has seen the activity of several engines: one number for the cursors of all of them. */
export class ActivityCursors {
  readonly #cursors = new Map<number, ReadonlyMap<string, number>>()
  #last = 0

  /** The cursor of each engine; undefined for a number that is not known any more. */
  get(cursor: number | undefined): ReadonlyMap<string, number> | undefined {
    return cursor === undefined ? undefined : this.#cursors.get(cursor)
  }

  /** Notes the cursor of each engine; returns the number for all of them. */
  add(cursors: ReadonlyMap<string, number>): number {
    this.#cursors.set(++this.#last, cursors)
    this.#cursors.delete(this.#last - most)
    return this.#last
  }
}

/** What the flight recorders of several engines have, as of one; times are by the clock of the first one. */
export function mergeRecordings(all: readonly RecordingParts[]): RecordingParts {
  const [first, ...others] = all as readonly [RecordingParts, ...RecordingParts[]]
  if (others.length === 0) return first
  let engines = 0
  const aligned = all.map((parts) => {
    const numbered = recordingAt(parts, first.endsAt - parts.endsAt, engines)
    engines += parts.engines ?? 1
    return numbered
  })
  return {
    ...first,
    engines,
    beginsAt: Math.min(...aligned.map(({ beginsAt }) => beginsAt)),
    arrivals: joined(aligned.flatMap(({ arrivals }) => arrivals)),
    steps: aligned.flatMap(({ steps }) => steps).sort(byTime),
    changes: aligned.flatMap(({ changes }) => changes).sort(byTime),
  }
}

const byTime = (one: { readonly atMs: number }, other: { readonly atMs: number }): number =>
  one.atMs - other.atMs

/** By another clock, with the numbers of its engines behind those of others. */
function recordingAt(parts: RecordingParts, ms: number, engines: number): RecordingParts {
  const later = <T extends { readonly atMs: number }>(one: T): T => ({
    ...one,
    atMs: one.atMs + ms,
  })
  const numbered = <T extends { readonly atMs: number; readonly engine?: number }>(one: T): T => ({
    ...later(one),
    engine: engines + (one.engine ?? 0),
  })
  return {
    ...parts,
    beginsAt: parts.beginsAt + ms,
    endsAt: parts.endsAt + ms,
    arrivals: parts.arrivals.map(later),
    steps: parts.steps.map(numbered),
    changes: parts.changes.map(numbered),
  }
}

/** A request that went on at another engine is one. */
function joined(arrivals: readonly Arrival[]): Arrival[] {
  const byId = new Map<string, Arrival>()
  for (const arrival of arrivals.toSorted(byTime)) {
    const before = byId.get(arrival.id)
    byId.set(arrival.id, before === undefined ? arrival : goneOn(before, arrival))
  }
  return [...byId.values()]
}

/** What an engine drew that did not reach the client is drawn again by the next one. */
function goneOn(before: Arrival, { endMs, end, ...after }: Arrival): Arrival {
  const { endMs: _, end: __, ...began } = before
  const lateMs = after.atMs - before.atMs
  const { firstTokenMs = after.firstTokenMs && after.firstTokenMs + lateMs } = before
  return {
    ...after,
    ...began,
    blocks: before.blocks.length > 0 ? before.blocks : after.blocks,
    tokens: (after.had ?? 0) - (before.had ?? 0) + after.tokens,
    ...(firstTokenMs !== undefined && { firstTokenMs }),
    ...(endMs !== undefined && { endMs: endMs + lateMs }),
    ...(end !== undefined && { end }),
  }
}

/** Workers that are gone and are remembered one by one, as they may come back; more where more are there at once. */
const mostGone = 100

/** What each worker said last of itself, and what those that are gone have counted: no sum goes back. */
export class LastStatistics {
  readonly #last = new Map<string, EngineStatistics>()
  readonly #gone = new Map<string, EngineStatistics>()
  /** The most workers that were there at once: all of them may be gone at once, and come back. */
  #mostThere = 0
  /** Of those that are gone for longest. */
  #sum: EngineStatistics | undefined

  /** A worker says this of itself. */
  set(worker: string, statistics: EngineStatistics): void {
    this.#gone.delete(worker)
    this.#last.set(worker, statistics)
    this.#mostThere = Math.max(this.#mostThere, this.#last.size)
  }

  /** What a worker said last; undefined: nothing since it came. */
  get(worker: string): EngineStatistics | undefined {
    return this.#last.get(worker)
  }

  /** A worker is gone. */
  lose(worker: string): void {
    const last = this.#last.get(worker)
    if (last === undefined) return
    this.#last.delete(worker)
    this.#gone.set(worker, pastOf(last))
    const [oldest] = this.#gone
    const limit = Math.max(mostGone, this.#mostThere)
    if (this.#gone.size <= limit || oldest === undefined) return
    this.#gone.delete(oldest[0])
    this.#sum = this.#sum === undefined ? oldest[1] : sumStatistics(this.#sum, oldest[1])
  }

  /** What was counted by those that are gone, and by those that came back and have said nothing yet. */
  get gone(): readonly EngineStatistics[] {
    return [...this.#gone.values(), ...(this.#sum === undefined ? [] : [this.#sum])]
  }
}

/**
 * The statistics of several engines as of one: counters add up, slots follow each other.
 *
 * @param waits - what a new request is predicted to wait at each that takes requests: the router looks for the least
 */
export function mergeStatistics(
  all: readonly EngineStatistics[],
  waits: readonly number[],
): EngineStatistics {
  const [first, ...others] = all as readonly [EngineStatistics, ...EngineStatistics[]]
  const { waitMs: _, ...sum } = others.reduce((sum, one) => sumStatistics(sum, one), first)
  const least = waits.length === 0 ? {} : { waitMs: Math.min(...waits) }
  return { ...sum, ...least, slots: sum.slots.map((one, slot) => ({ ...one, slot })) }
}
