import type { ActivityFrame, EngineActivity } from '@cllm/core'
import { sumStatistics } from '@cllm/host'

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
    aligned.push(moved(one, first.now - one.now, slots))
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
function moved(activity: EngineActivity, ms: number, slots: number): EngineActivity {
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
