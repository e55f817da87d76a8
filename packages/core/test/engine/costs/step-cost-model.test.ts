import { type Chunk, nextNumber, StepCostModel } from '@cllm/core'
import * as fc from 'fast-check'
import t from 'tap'

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
  model.onStep([...decoding.map((context) => ({ tokens: 1, context })), ...chunks], ms)
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
    model.onStep(parts, durationMs(machine, work) + 90 * copies, copies)
  }
  t.ok(Math.abs(model.copyMs / 90 - 1) < 0.05, `${model.copyMs.toFixed(1)} of 90 ms`)
  t.ok(Math.abs(model.decodeMs([0]) / 21 - 1) < 0.1, 'and decoding as without copies')
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
