import 'reflect-metadata'
import type { Backend, StepRecord } from '@cllm/core'
import * as fc from 'fast-check'
import t from 'tap'
import { AnswerLengths } from '../../../src/engine/costs/answer-lengths.js'
import { QueueModel, type Work } from '../../../src/engine/costs/queue-model.js'
import { FcfsWaitPredictor } from '../../../src/engine/costs/wait-predictor.js'
import type { EngineCosts } from '../../../src/engine/costs/engine-costs.js'
import type { KVCacheManager } from '../../../src/engine/parts.js'
import { RunningSet } from '../../../src/engine/requests/running-set.js'
import { WaitingQueue } from '../../../src/engine/requests/waiting-queue.js'
import { promptOf } from '../../rig.js'
import { sequenceOf } from '../../sequences.js'

t.test('QueueModel: known queues', async (t) => {
  const queue = new QueueModel(1000, 2, [{ promptMs: 10, steps: 5 }], 10)
  t.equal(queue.turnOf(Infinity), 1000, 'a slot is free')
  t.equal(queue.firstTokenMs({ promptMs: 7, steps: 2 }), 37, '2 steps, 7 ms of its own, 10 beside')
  queue.add({ promptMs: 4, steps: 3 })
  t.equal(queue.turnOf(Infinity), 1044, '3 steps until the sooner slot is free, 14 ms of prompts')
  queue.add({ promptMs: 0, steps: 1 })
  t.equal(queue.turnOf(Infinity), 1054)
  t.equal(queue.firstTokenMs({ promptMs: 7, steps: 2 }), 27, 'the other prompts are done by then')
  t.same([queue.turnOf(0), queue.turnOf(1), queue.turnOf(2)], [1000, 1044, 1054])
  queue.onLeft()
  t.same([queue.turnOf(0), queue.turnOf(1)], [1044, 1054], 'places move up')

  const empty = new QueueModel(0, 3, [], 10)
  t.equal(empty.turnOf(Infinity), 0)
  t.equal(empty.firstTokenMs({ promptMs: 7, steps: 2 }), 27)
})

const works = fc.array(
  fc.record({ promptMs: fc.nat(500), steps: fc.integer({ min: 1, max: 300 }) }),
  {
    maxLength: 30,
  },
)

t.test('QueueModel: turns are in order, and more work is never sooner', async (t) => {
  let waited = 0
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 5 }), works, works, works, (slots, all, queued, more) => {
      const running = all.slice(0, slots)
      const turnsOf = (now: readonly Work[], stepMs: number): number[] => {
        const model = new QueueModel(50, slots, now, stepMs)
        for (const work of queued) model.add(work)
        return [...queued.keys(), Infinity].map((place) => model.turnOf(place))
      }
      const turns = turnsOf(running, 10)
      for (const [place, turn] of turns.entries()) {
        if (turn < (turns[place - 1] ?? 50))
          throw new Error(`${place} overtakes in ${turns.join()}`)
      }
      const busier = turnsOf([...running, ...more].slice(0, slots), 10)
      const slower = turnsOf(running, 20)
      for (const [place, turn] of turns.entries()) {
        if ((busier[place] ?? 0) < turn) throw new Error(`${place} is sooner beside more work`)
        if ((slower[place] ?? 0) < turn) throw new Error(`${place} is sooner in longer steps`)
      }
      if ((turns.at(-1) ?? 0) > 50) waited++
    }),
    { numRuns: 300 },
  )
  t.ok(waited > 100, 'in most of them requests waited')
})

t.test('AnswerLengths', async (t) => {
  const fresh = new AnswerLengths()
  t.ok(Math.abs(fresh.expected(256) - 256 * (1 - Math.exp(-1))) < 1e-9, 'an end every 256 tokens')

  const short = new AnswerLengths()
  for (let n = 0; n < 500; n++) short.onEnded(10, true)
  t.ok(Math.abs(short.expected(1e6) - 10) < 0.1, 'answers of 10 tokens')
  t.ok(short.expected(5) < 5)

  const cut = new AnswerLengths()
  for (let n = 0; n < 2000; n++) cut.onEnded(40, false)
  t.ok(cut.expected(40) > 39.9, 'answers that reach their limits are expected to')

  fc.assert(
    fc.property(
      fc.array(fc.tuple(fc.nat(500), fc.boolean()), { maxLength: 50 }),
      fc.integer({ min: 1, max: 5000 }),
      (answers, limit) => {
        const lengths = new AnswerLengths()
        for (const [tokens, isWhole] of answers) lengths.onEnded(tokens, isWhole)
        const expected = lengths.expected(limit)
        return (
          expected > 0 && expected <= limit + 1e-9 && expected <= lengths.expected(limit + 1) + 1e-9
        )
      },
    ),
  )
  t.pass('between 0 and the limit, and not shorter for a higher limit')
})

/** A predictor for one slot in which a step takes 10 ms and a prompt token 1 ms more. */
function predictorOf() {
  const waiting = new WaitingQueue()
  const running = new RunningSet()
  const kv = { freeCount: 1 }
  const prefillMs = ([chunk]: readonly { readonly tokens: number }[]) => chunk?.tokens ?? 0
  const tokensMs = (tokens: number): number => tokens
  const steps = { decodeMs: () => 10, prefillMs, tokensMs }
  const predictor = new FcfsWaitPredictor(
    waiting,
    running,
    kv as KVCacheManager,
    { steps, reuseShare: 0 } as unknown as EngineCosts,
    { limits: { slots: 1, contextSize: 1000, batchSize: 512 } } as Backend,
  )
  return { waiting, running, kv, predictor }
}

const near = (found: number, expected: number): boolean => Math.abs(found - expected) < 1e-6
/** Steps that an answer of at most 256 tokens is expected to take before any has ended. */
const answerSteps = 256 * (1 - Math.exp(-1))

t.test('FcfsWaitPredictor', async (t) => {
  const { waiting, running, kv, predictor } = predictorOf()
  const newcomer = sequenceOf(promptOf(100))
  t.same(
    predictor.forecast(newcomer, 1000),
    { position: 0, queueMs: 0, firstTokenMs: 110 },
    'an idle engine: one step with 100 tokens',
  )

  const decoding = sequenceOf(promptOf(10), { id: 'running', maxTokens: 257 })
  decoding.append(5, undefined)
  decoding.computedTokens = 10
  decoding.state = 'decoding'
  running.add(decoding)
  kv.freeCount = 0
  t.equal(predictor.forecast(newcomer, 1010).queueMs, 0, 'for 20 ms it keeps what it worked out')
  const behind = predictor.forecast(newcomer, 1020)
  t.equal(behind.position, 1)
  t.ok(near(behind.queueMs, answerSteps * 10), `${behind.queueMs}`)
  t.ok(near(behind.firstTokenMs, behind.queueMs + 110))

  const queued = sequenceOf(promptOf(50), { id: 'queued', maxTokens: 256 })
  waiting.add(queued)
  predictor.onQueued(queued)
  t.ok(near(predictor.waitMs(0, 1020), answerSteps * 10), 'it has the place of the newcomer')
  const second = predictor.forecast(newcomer, 1020)
  t.equal(second.position, 2)
  t.ok(near(second.queueMs, 2 * answerSteps * 10 + 50), 'two answers and 50 tokens')
  t.ok(near(predictor.forecast(newcomer, 1030).queueMs, second.queueMs - 10), 'time goes by')
  const recomputed = predictor.forecast(newcomer, 1040)
  t.ok(near(recomputed.queueMs, second.queueMs), 'worked out anew it is the same queue')

  waiting.remove(queued)
  predictor.onAdmitted()
  t.ok(near(predictor.waitMs(0, 1040), second.queueMs), 'the next one is first in the queue')
})

t.test('FcfsWaitPredictor learns how slow steps and how long answers are', async (t) => {
  const { running, kv, predictor } = predictorOf()
  const newcomer = sequenceOf(promptOf(100))
  const busy = sequenceOf(promptOf(10), { id: 'running', maxTokens: 257 })
  busy.append(5, undefined)
  busy.state = 'decoding'
  running.add(busy)
  kv.freeCount = 0
  const before = predictor.forecast(newcomer, 0).queueMs
  const parts = [{ request: busy, tokens: 1, context: 10, isDecode: true }] as const
  const step = { parts, prefillTokens: 0, prefillSequences: 0 } as unknown as StepRecord
  predictor.onTurn(1e9, undefined)
  for (let n = 0; n < 500; n++) predictor.onTurn(30, step)
  const slow = predictor.forecast(newcomer, 100).queueMs
  t.ok(Math.abs(slow / before - 3) < 0.01, `turns of 30 ms, not 10: ${slow / before} times as long`)

  const ended = sequenceOf(promptOf(10))
  for (let n = 0; n < 4; n++) ended.append(5, undefined)
  ended.state = 'done'
  ended.finish = 'stop'
  for (let n = 0; n < 500; n++) predictor.onFinished(ended)
  const short = predictor.forecast(newcomer, 200).queueMs
  t.ok(Math.abs(short / (4 * 30) - 1) < 0.02, `answers of 4 tokens: ${short} ms`)

  ended.finish = 'length'
  for (let n = 0; n < 2000; n++) predictor.onFinished(ended)
  const cut = predictor.forecast(newcomer, 300).queueMs
  t.ok(Math.abs(cut / (256 * 30) - 1) < 0.02, `answers that reach their limits: ${cut} ms`)
})
