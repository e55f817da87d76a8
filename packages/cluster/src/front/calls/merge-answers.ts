import type { ActivityFrame, EngineActivity, EngineStatistics } from '@cllm/core'
import { sumStatistics, type Arrival, type RecordingParts, pastOf } from '@cllm/host'

/** The most waiting requests that are listed, as by a single engine. */
const mostQueued = 32

/**
 * Merges the activities of several engines as if of one: their slots are numbered on, and their times are converted
 * to the clock of the first one. All their frames become one frame.
 *
 * @param cursor the number of that frame, and the cursor for the next query
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

/** Shifts an activity's times by `ms`, and its slot numbers by `slots`. */
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

/** The sum of the counts of each key; in a map, as tenants may have any names. */
function sumsOf<Key>(counts: readonly (readonly [Key, number])[]): Map<Key, number> {
  const sums = new Map<Key, number>()
  for (const [key, count] of counts) sums.set(key, (sums.get(key) ?? 0) + count)
  return sums
}

/** The most cursors that are remembered; clients with older ones begin anew. */
const most = 64

/** One number for the cursors of several engines, up to which a client has seen their activity. */
export class ActivityCursors {
  readonly #cursors = new Map<number, ReadonlyMap<string, number>>()
  #last = 0

  /** The cursor of each engine; undefined for a forgotten number. */
  get(cursor: number | undefined): ReadonlyMap<string, number> | undefined {
    return cursor === undefined ? undefined : this.#cursors.get(cursor)
  }

  /** Remembers the cursor of each engine; returns the number for all of them. */
  add(cursors: ReadonlyMap<string, number>): number {
    this.#cursors.set(++this.#last, cursors)
    this.#cursors.delete(this.#last - most)
    return this.#last
  }
}

/** Merges the flight recorders of several engines as if of one; times are converted to the clock of the first one. */
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

/** Shifts a recording's times by `ms`, and its engine numbers by `engines`. */
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

/** Joins the arrivals of requests that went on at other engines. */
function joined(arrivals: readonly Arrival[]): Arrival[] {
  const byId = new Map<string, Arrival>()
  for (const arrival of arrivals.toSorted(byTime)) {
    const before = byId.get(arrival.id)
    byId.set(arrival.id, before === undefined ? arrival : goneOn(before, arrival))
  }
  return [...byId.values()]
}

/** Joins two arrivals of a request. Tokens that did not reach the client were generated again, and count once. */
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

/** The most lost workers that are kept apart, as they may come back; more if more were there at once. */
const mostGone = 100

/** The last statistics of each worker, and the counters of lost ones, so that no sum decreases. */
export class LastStatistics {
  readonly #last = new Map<string, EngineStatistics>()
  readonly #gone = new Map<string, EngineStatistics>()
  /** The most workers at one time, all of which may be lost at once and come back. */
  #mostThere = 0
  /** The sum of the workers that have been lost for the longest time. */
  #sum: EngineStatistics | undefined

  /** Stores a worker's statistics. */
  set(worker: string, statistics: EngineStatistics): void {
    this.#gone.delete(worker)
    this.#last.set(worker, statistics)
    this.#mostThere = Math.max(this.#mostThere, this.#last.size)
  }

  /** A worker's last statistics; undefined: none since it joined. */
  get(worker: string): EngineStatistics | undefined {
    return this.#last.get(worker)
  }

  /** Keeps the counters of a lost worker. */
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

  /** The counters of lost workers, including those that are back but have sent no statistics yet. */
  get gone(): readonly EngineStatistics[] {
    return [...this.#gone.values(), ...(this.#sum === undefined ? [] : [this.#sum])]
  }
}

/**
 * Merges the statistics of several engines as if of one: counters are added, and slots numbered on.
 *
 * @param waits - a new request's predicted waits at the engines that take requests; the router prefers the shortest
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
