import type {
  Distribution,
  EngineStatistics,
  WorkersStatistics,
} from '../contracts/engine/engine-statistics.js'
import { defined } from '../defined.js'
import { cacheGoingOn, emptied } from './lasting-cache-counters.js'

const counters = [
  'promptTokens',
  'cachedTokens',
  'generatedTokens',
  'preemptions',
  'policyFaults',
  'steps',
  'prefillTokens',
  'decodeTokens',
  'decodeMs',
  'sampleMs',
  'busyMs',
] as const

const distributions = ['stepMs', 'stepTokens', 'stepSequences'] as const

/** What an engine that has left memory had counted; nothing goes on in it any more. */
export function pastOf(statistics: EngineStatistics): EngineStatistics {
  const { waitMs: _, kvPool: __, recorder: ___, workers, cache, ...counted } = statistics
  return {
    ...counted,
    waiting: 0,
    running: 0,
    slots: [],
    ...defined({ cache: cache && emptied(cache), workers: workers && { ...workers, list: [] } }),
  }
}

/** What an engine says, with its counters going on from those of the one before it. */
export function goingOn(now: EngineStatistics, past: EngineStatistics): EngineStatistics {
  return {
    ...now,
    ...fromEntries(counters, (name) => now[name] + past[name]),
    ...fromEntries(distributions, (name) => distributionsOf(now[name], past[name])),
    requests: sums(now.requests, past.requests),
    ...defined({
      speculation:
        now.speculation && past.speculation
          ? sums(now.speculation, past.speculation)
          : (now.speculation ?? past.speculation),
      cache: now.cache && cacheGoingOn(now.cache, past.cache),
      workers: now.workers && workersOf(now.workers, past.workers),
    }),
  }
}

const fromEntries = <Name extends string, Value>(
  names: readonly Name[],
  value: (name: Name) => Value,
): Record<Name, Value> =>
  Object.fromEntries(names.map((name) => [name, value(name)])) as Record<Name, Value>

const sums = <Name extends string>(
  now: Readonly<Record<Name, number>>,
  past: Readonly<Record<Name, number>>,
): Record<Name, number> => fromEntries(Object.keys(now) as Name[], (name) => now[name] + past[name])

/** A model's engines all have the same bounds. */
const distributionsOf = (now: Distribution, past: Distribution): Distribution => ({
  bounds: now.bounds,
  counts: now.counts.map((count, index) => count + (past.counts[index] ?? 0)),
  sum: now.sum + past.sum,
})

function workersOf(
  { list, ...now }: WorkersStatistics,
  past: WorkersStatistics | undefined,
): WorkersStatistics {
  if (past === undefined) return { list, ...now }
  const { list: _, ...before } = past
  return { list, ...sums(now, before) }
}
