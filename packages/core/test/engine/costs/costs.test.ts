import { type Chunk, StepCostModel, type StepRecord, nextNumber } from '@cllm/core'
import * as fc from 'fast-check'
import t from 'tap'
import {
  AnswerLengths,
  FcfsWaitPredictor,
  QueueModel,
  type Work,
} from '../../../src/engine/costs/wait-predictor.js'
import type { EngineCosts } from '../../../src/engine/costs/engine-costs.js'
import { workOf } from '../../../src/engine/costs/pass-costs.js'
import { RunningSet, WaitingQueue } from '../../../src/engine/requests/request-sets.js'
import { promptOf } from '../../rig.js'
import { sequenceOf } from '../../sequences.js'

import 'reflect-metadata'

interface Step {
  readonly decoding: readonly number[]
  readonly chunks: readonly Chunk[]
}

/** Costs of a machine: decode base, each, read; prefill base, again, each, read. */
type Costs = readonly [number, number, number, number, number, number, number]

function durationMs([base, each, read, start, again, token, pair]: Costs, step: Step): number {
  let ms = 0
  if (step.decoding.length > 0) ms += base
  for (const context of step.decoding) ms += each + read * context
  if (step.chunks.length > 0) ms += start
  const lengths = new Set(step.chunks.map(({ tokens }) => tokens))
  ms += again * Math.max(0, lengths.size - 1)
  for (const { tokens, context } of step.chunks) {
    ms += token * tokens + pair * tokens * (context + tokens / 2)
  }
  return ms
}

function observe(model: StepCostModel, { decoding, chunks }: Step, ms: number): void {
  model.onWork(workOf([...decoding.map((context) => ({ tokens: 1, context })), ...chunks]), ms)
}

/** The same random numbers from 0 to 1 for the same seed. */
function randomNumbers(seed: number): () => number {
  let state = seed
  return () => {
    state = nextNumber(state)
    return state / 2 ** 32
  }
}

/** Decoding, prompts, or both. */
function randomStep(random: () => number): Step {
  const upTo = (most: number): number => 1 + Math.floor(random() * most)
  const kind = upTo(3)
  const decoding = Array.from({ length: kind === 1 ? 0 : upTo(16) }, () => upTo(2000))
  const chunks = Array.from({ length: kind === 2 ? 0 : upTo(3) }, () => {
    return { tokens: 15 + upTo(285), context: upTo(2000) }
  })
  return { decoding, chunks }
}

/** From a GPU to a large model on a few cores. */
const costs: fc.Arbitrary<Costs> = fc
  .tuple(
    fc.double({ min: 0.1, max: 10, noNaN: true }),
    fc.array(fc.double({ min: 0.3, max: 3, noNaN: true }), { minLength: 7, maxLength: 7 }),
  )
  .map(([speed, [one = 1, two = 1, three = 1, four = 1, five = 1, six = 1, seven = 1]]) => [
    15 * speed * one,
    6 * speed * two,
    0.003 * speed * three,
    20 * speed * four,
    15 * speed * five,
    2 * speed * six,
    0.001 * speed * seven,
  ])

t.test('learns the costs of any machine through noise and slow steps', (t) => {
  fc.assert(
    fc.property(costs, fc.nat(), (truth, seed) => {
      const random = randomNumbers(seed)
      const model = new StepCostModel()
      for (let index = 0; index < 300; index++) {
        const work = randomStep(random)
        const slow = index % 60 === 30 ? 7 : 1
        observe(model, work, durationMs(truth, work) * (0.95 + 0.1 * random()) * slow)
      }
      const errors = Array.from({ length: 100 }, () => {
        const work = randomStep(random)
        const predicted = model.decodeMs(work.decoding) + model.prefillMs(work.chunks)
        return Math.abs(predicted / durationMs(truth, work) - 1)
      }).sort((one, other) => one - other)
      return (errors[50] ?? 1) < 0.1 && (errors[90] ?? 1) < 0.3
    }),
    { numRuns: 60 },
  )
  t.end()
})

const machine: Costs = [15, 6, 0.003, 20, 15, 2, 0.001]

t.test('a long time of decoding does not wash out what prompts cost', (t) => {
  const model = new StepCostModel()
  const prompt = { tokens: 64, context: 0 }
  for (let tokens = 16; tokens <= 128; tokens += 16) {
    const work = { decoding: [], chunks: [{ tokens, context: tokens }] }
    observe(model, work, durationMs(machine, work))
  }
  const before = model.prefillMs([prompt])
  for (let length = 1; length <= 2000; length++) {
    const work = { decoding: [length, length], chunks: [] }
    observe(model, work, durationMs(machine, work))
  }
  t.ok(Math.abs(model.prefillMs([prompt]) / before - 1) < 0.02)
  const learned = model.decodeMs([2000, 2000])
  t.ok(Math.abs(learned / (15 + 2 * (6 + 0.003 * 2000)) - 1) < 0.02)
  t.end()
})

t.test('believes a fast machine at once, and a slow step hardly', (t) => {
  const model = new StepCostModel()
  const prompt = { tokens: 100, context: 0 }
  const work = { decoding: [], chunks: [prompt] }
  const first = model.prefillMs([prompt])
  observe(model, work, first / 50)
  const fast = model.prefillMs([prompt])
  t.ok(fast < (first / 50) * 1.2, `${fast} ms after a step of ${first / 50} ms`)
  for (let count = 0; count < 20; count++) observe(model, work, first / 50)
  observe(model, work, first)
  t.ok(model.prefillMs([prompt]) < (first / 50) * 1.2)
  t.end()
})

t.test('what was learned before is believed, until steps show otherwise', (t) => {
  const before = new StepCostModel()
  const random = randomNumbers(5)
  for (let count = 0; count < 200; count++) {
    const work = randomStep(random)
    observe(before, work, durationMs(machine, work))
  }
  const recalled = (): StepCostModel => {
    const model = new StepCostModel()
    model.recall(JSON.parse(JSON.stringify(before.learned())))
    return model
  }
  const work = { decoding: [100, 200], chunks: [] }
  const expected = before.decodeMs(work.decoding)
  const prompt = [{ tokens: 100, context: 0 }]
  t.equal(recalled().decodeMs(work.decoding), expected)
  const disturbed = recalled()
  observe(disturbed, work, 20 * expected)
  t.ok(disturbed.decodeMs(work.decoding) < 2.1 * expected, 'one slow step')
  const steady = recalled()
  observe(steady, work, expected)
  t.ok(Math.abs(steady.prefillMs(prompt) / before.prefillMs(prompt) - 1) < 0.01, 'prompts stay')
  const faster = recalled()
  for (let count = 0; count < 3; count++) observe(faster, work, expected / 10)
  const share = faster.decodeMs(work.decoding) / expected
  t.ok(share < 0.12, `${share} of it on a machine that is ten times as fast`)
  t.end()
})

t.test('prefillTokens inverts prefillMs, and nothing costs nothing', (t) => {
  const model = new StepCostModel()
  for (let tokens = 20; tokens < 400; tokens += 20) {
    const work = { decoding: [], chunks: [{ tokens, context: 5 * tokens }] }
    observe(model, work, durationMs(machine, work))
  }
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 2000 }), fc.nat(2000), (tokens, before) => {
      const found = model.prefillTokens(model.prefillMs([{ tokens, context: before }]), before)
      return Math.abs(found - tokens) < 1e-6 * tokens
    }),
  )
  t.equal(model.prefillTokens(0, 100), 0)
  t.equal(model.decodeMs([]), 0)
  t.equal(model.prefillMs([]), 0)
  t.end()
})

t.test('steps without a duration teach nothing', (t) => {
  const model = new StepCostModel()
  const prompt = { tokens: 100, context: 0 }
  const before = model.prefillMs([prompt])
  for (const ms of [0, -1, Number.NaN, Infinity])
    observe(model, { decoding: [], chunks: [prompt] }, ms)
  t.ok(model.prefillMs([prompt]) <= 2 * before && model.prefillMs([prompt]) > 0)
  t.end()
})

t.test('what tokens add to a step is the difference between two steps', (t) => {
  const model = new StepCostModel()
  const chunk = (tokens: number) => [{ tokens, context: 700 }]
  const difference = model.prefillMs(chunk(300)) - model.prefillMs(chunk(100))
  t.ok(Math.abs(difference - (model.tokensMs(300, 700) - model.tokensMs(100, 700))) < 1e-9)
  t.end()
})

t.test('learns what a copy adds, whatever the steps beside it compute', (t) => {
  const model = new StepCostModel()
  const random = randomNumbers(5)
  for (let index = 0; index < 300; index++) {
    const work = randomStep(random)
    const copies = index % 7 === 0 ? 1 + (index % 2) : 0
    const parts = [...work.decoding.map((context) => ({ tokens: 1, context })), ...work.chunks]
    model.onWork(workOf(parts, copies), durationMs(machine, work) + 90 * copies)
  }
  t.ok(Math.abs(model.copyMs / 90 - 1) < 0.05, `${model.copyMs.toFixed(1)} of 90 ms`)
  t.ok(Math.abs(model.decodeMs([0]) / 21 - 1) < 0.1, 'and decoding as without copies')
  t.end()
})

t.test('a copy that fell into a stall of the machine is not kept for later processes', (t) => {
  const afterCopies = (known: unknown, ...copies: number[]): StepCostModel => {
    const model = new StepCostModel()
    model.recall(known)
    const random = randomNumbers(5)
    for (let index = 0; index < 100; index++) {
      const work = randomStep(random)
      observe(model, work, durationMs(machine, work))
    }
    for (const ms of copies) {
      const work = { decoding: [100], chunks: [], copies: 1 }
      model.onWork(work, durationMs(machine, work) + ms)
    }
    const next = new StepCostModel()
    next.recall(JSON.parse(JSON.stringify(model.learned())))
    return next
  }
  const fresh = afterCopies(undefined)
  const stalled = afterCopies(undefined, 20 * fresh.copyMs)
  t.ok(stalled.copyMs / fresh.copyMs < 1.1, `${stalled.copyMs} ms, without it ${fresh.copyMs}`)
  const steady = afterCopies(undefined, ...Array<number>(60).fill(2))
  t.ok(steady.copyMs < fresh.copyMs / 4, `${steady.copyMs} of 2 ms`)
  t.equal(afterCopies(steady.learned(), 500).copyMs, steady.copyMs)
  t.equal(new StepCostModel().learned(), undefined, 'nothing yet')
  t.end()
})

t.test('a model that forgets nothing and believes everything has the mean of its steps', (t) => {
  const model = new StepCostModel({ memory: 1, outlier: Infinity })
  const work = { decoding: [10], chunks: [] }
  for (let index = 0; index < 4000; index++) model.onWork(work, index % 10 === 9 ? 100 : 10)
  // The fit minimises relative errors: the harmonic counterpart of the mean.
  const steps = [...Array.from({ length: 9 }, () => 10), 100]
  const sum = (of: (ms: number) => number): number => steps.reduce((all, ms) => all + of(ms), 0)
  const expected = sum((ms) => 1 / ms) / sum((ms) => 1 / ms ** 2)
  t.ok(Math.abs(model.predict(work) / expected - 1) < 0.02, `${model.predict(work).toFixed(2)} ms`)
  t.end()
})

t.test('QueueModel: known queues', async (t) => {
  const queue = new QueueModel(1000, 2, [{ promptMs: 10, steps: 5 }], 10)
  t.equal(queue.turnOf(Infinity), 1000, 'a slot is free')
  t.equal(
    queue.forecast({ promptMs: 7, steps: 2 }).firstTokenMs,
    37,
    '2 steps, 7 ms of its own, 10 beside',
  )
  queue.add({ promptMs: 4, steps: 3 })
  t.equal(queue.turnOf(Infinity), 1044, '3 steps until the sooner slot is free, 14 ms of prompts')
  queue.add({ promptMs: 0, steps: 1 })
  t.equal(queue.turnOf(Infinity), 1054)
  t.equal(
    queue.forecast({ promptMs: 7, steps: 2 }).firstTokenMs,
    27,
    'the other prompts are done by then',
  )
  t.same([queue.turnOf(0), queue.turnOf(1), queue.turnOf(2)], [1000, 1044, 1054])
  queue.gone++
  t.same([queue.turnOf(0), queue.turnOf(1)], [1044, 1054], 'places move up')

  const pool = new QueueModel(0, 4, [{ promptMs: 0, steps: 5, cells: 60 }], 10, 100)
  t.equal(pool.forecast({ promptMs: 0, steps: 0, cells: 40 }).turn, 0, 'slots and cells are free')
  t.equal(
    pool.forecast({ promptMs: 0, steps: 0, cells: 41 }).turn,
    50,
    'cells are free when the running one has ended',
  )
  t.equal(
    pool.forecast({ promptMs: 0, steps: 0, cells: 999 }).turn,
    50,
    'alone, it has what it needs',
  )
  pool.add({ promptMs: 0, steps: 9, cells: 70 })
  t.equal(
    pool.forecast({ promptMs: 0, steps: 0, cells: 10 }).turn,
    50,
    'no other overtakes the one that waits for cells',
  )
  t.equal(pool.forecast({ promptMs: 0, steps: 0, cells: 31 }).turn, 140)

  const empty = new QueueModel(0, 3, [], 10)
  t.equal(empty.turnOf(Infinity), 0)
  t.equal(empty.forecast({ promptMs: 7, steps: 2 }).firstTokenMs, 27)
})

const works = fc.array(
  fc.record({ promptMs: fc.nat(500), steps: fc.integer({ min: 1, max: 300 }) }),
  {
    maxLength: 30,
  },
)

t.test('QueueModel: turns are in order, and more work is never sooner', async (t) => {
  let runs = 0
  let waited = 0
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 5 }), works, works, works, (slots, all, queued, more) => {
      runs++
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
  t.ok(waited > runs / 3, 'in most of them requests waited')
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
  const prefillMs = ([chunk]: readonly { readonly tokens: number }[]) => chunk?.tokens ?? 0
  const tokensMs = (tokens: number): number => tokens
  const steps = { decodeMs: () => 10, prefillMs, tokensMs }
  const predictor = new FcfsWaitPredictor(
    waiting,
    running,
    { steps, reuseShare: 0 } as unknown as EngineCosts,
    { limits: { slots: 1, contextSize: 1000, batchSize: 512 } },
  )
  return { waiting, running, predictor }
}

const near = (found: number, expected: number): boolean => Math.abs(found - expected) < 1e-6
/** Steps that an answer of at most 256 tokens is expected to take before any has ended. */
const answerSteps = 256 * (1 - Math.exp(-1))

t.test('FcfsWaitPredictor', async (t) => {
  const { waiting, running, predictor } = predictorOf()
  const newcomer = sequenceOf(promptOf(100))
  t.same(
    predictor.forecast(newcomer, 1000),
    { position: 0, queueMs: 0, firstTokenMs: 110 },
    'an idle engine: one step with 100 tokens',
  )

  const decoding = sequenceOf(promptOf(10), { id: 'running', maxTokens: 257 })
  decoding.tokens.push(5)
  decoding.computedTokens = 10
  decoding.state = 'decoding'
  running.set(decoding.id, decoding)
  t.equal(predictor.forecast(newcomer, 1010).queueMs, 0, 'for 20 ms it keeps what it worked out')
  const behind = predictor.forecast(newcomer, 1020)
  t.equal(behind.position, 1)
  t.ok(near(behind.queueMs, answerSteps * 10), `${behind.queueMs}`)
  t.ok(near(behind.firstTokenMs, behind.queueMs + 110))

  const queued = sequenceOf(promptOf(50), { id: 'queued', maxTokens: 256 })
  waiting.add(queued)
  predictor.onQueued(queued, 1020)
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

t.test('a queue that nobody asks about any more does not grow', async (t) => {
  const { predictor } = predictorOf()
  let added = 0
  predictor.answerTokens = () => ++added
  predictor.waitMs(0, 1000)
  for (const now of [1019, 1020, 1021]) predictor.onQueued(sequenceOf(promptOf(10)), now)
  t.equal(added, 1, 'for 20 ms, as long as it may be asked about')
})

t.test('FcfsWaitPredictor learns how slow steps and how long answers are', async (t) => {
  const { running, predictor } = predictorOf()
  const newcomer = sequenceOf(promptOf(100))
  const busy = sequenceOf(promptOf(10), { id: 'running', maxTokens: 257 })
  busy.tokens.push(5)
  busy.state = 'decoding'
  running.set(busy.id, busy)
  const before = predictor.forecast(newcomer, 0).queueMs
  const parts = [{ request: busy, tokens: 1, context: 10, isDecode: true }] as const
  const step = { parts, prefillTokens: 0, prefillSequences: 0 } as unknown as StepRecord
  predictor.onTurn(1e9, undefined)
  for (let n = 0; n < 500; n++) predictor.onTurn(30, step)
  const slow = predictor.forecast(newcomer, 100).queueMs
  t.ok(Math.abs(slow / before - 3) < 0.01, `turns of 30 ms, not 10: ${slow / before} times as long`)

  const ended = sequenceOf(promptOf(10))
  for (let n = 0; n < 4; n++) ended.tokens.push(5)
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
