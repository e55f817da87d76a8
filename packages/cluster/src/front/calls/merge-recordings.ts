import type { Arrival, RecordingParts } from '@cllm/host'

/** What the flight recorders of several engines have, as of one; times are by the clock of the first one. */
export function mergeRecordings(all: readonly RecordingParts[]): RecordingParts {
  const [first, ...others] = all as readonly [RecordingParts, ...RecordingParts[]]
  if (others.length === 0) return first
  let engines = 0
  const aligned = all.map((parts) => {
    const numbered = moved(parts, first.endsAt - parts.endsAt, engines)
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
function moved(parts: RecordingParts, ms: number, engines: number): RecordingParts {
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
