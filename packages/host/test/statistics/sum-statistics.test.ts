import type { CacheStatistics, EngineStatistics } from '@cllm/core'
import { pastOf, sumStatistics } from '@cllm/host'
import t from 'tap'
import { Counters } from '../../../core/src/engine/report/counters.js'

const tier = { states: 1, bytes: 10, limitBytes: 100, hits: 2, hitTokens: 20, misses: 3, saved: 4 }
const rest = { skipped: 5, failed: 6, evictions: 7, saveMs: 8, loadMs: 9 }
const cacheOf = (longestPauseMs: number): CacheStatistics => ({
  ram: { ...tier, ...rest },
  longestPauseMs,
})
const slot = { slot: 0, request: 'a', state: 'decoding' as const, tokens: 7 }
const statisticsOf = (longestPauseMs: number): EngineStatistics => ({
  ...new Counters().snapshot(),
  waiting: 1,
  running: 1,
  slots: [slot],
  policyFaults: 1,
  interruptedSteps: 1,
  waitMs: 5,
  kvPool: { tokens: 100, free: 40 },
  cache: cacheOf(longestPauseMs),
})

t.test('counters add up, slots follow each other, and the longest pause is the longest', (t) => {
  const both = sumStatistics(statisticsOf(300), statisticsOf(500))
  t.match(both, {
    waiting: 2,
    policyFaults: 2,
    interruptedSteps: 2,
    kvPool: { tokens: 200, free: 80 },
  })
  t.match(both.cache, { ram: { hits: 4, saveMs: 16, states: 2 }, longestPauseMs: 500 })
  t.equal(both.slots.length, 2)
  t.end()
})

t.test('counters go on from the past, and what is there is what is there now', (t) => {
  const now = statisticsOf(300)
  const sum = sumStatistics(now, pastOf(statisticsOf(500)))
  const { slots, waiting, kvPool, waitMs } = now
  t.same(sum, { ...sum, slots, waiting, kvPool, waitMs, policyFaults: 2, interruptedSteps: 2 })
  const { states, bytes, limitBytes } = tier
  t.match(sum.cache, { ram: { states, bytes, limitBytes, misses: 6 }, longestPauseMs: 500 })
  t.end()
})

t.test('a distribution with other bounds is left out', (t) => {
  const one = { times: { bounds: [1, 2], counts: [1, 2, 3], sum: 9 } }
  t.same(sumStatistics(one, one), { times: { bounds: [1, 2], counts: [2, 4, 6], sum: 18 } })
  const other = { times: { bounds: [5], counts: [1, 1], sum: 7 } }
  t.same(sumStatistics(one, other), one)
  t.end()
})
