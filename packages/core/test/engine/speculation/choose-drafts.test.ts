import { chooseDrafts, type DraftView, type SequenceView, StepCostModel } from '@cllm/core'
import t from 'tap'

const limits = { batchSize: 512 }

/** Requests that decode with these guesses. */
const decoding = (...drafts: readonly (DraftView | undefined)[]): SequenceView[] =>
  drafts.map((draft, index) => ({ id: `r${index}`, computedTokens: 100, draft }) as never)

/** A model that has seen what a pass and a token of it cost. */
function costsOf(passMs: number, tokenMs: number, promptTokenMs = tokenMs): StepCostModel {
  const costs = new StepCostModel()
  for (let round = 0; round < 30; round++) {
    for (const sequences of [1, 4, 16]) {
      const contexts = Array.from({ length: sequences }, () => 100)
      const work = { decoding: contexts, chunks: [] }
      costs.onWork(work, passMs + tokenMs * sequences)
    }
    for (const tokens of [20, 200]) {
      const work = { decoding: [], chunks: [{ tokens, context: 0 }] }
      costs.onWork(work, passMs + promptTokenMs * tokens)
    }
  }
  return costs
}

t.test('drafts are verified where that is faster', async (t) => {
  const sure = { tokens: 16, acceptance: 0.95 }
  const unsure = { tokens: 16, acceptance: 0.05 }
  const bandwidthBound = costsOf(20, 2)
  const computeBound = costsOf(1, 20)
  t.same(chooseDrafts(decoding(undefined), bandwidthBound, limits), [0], 'nothing is guessed')
  const [many = 0] = chooseDrafts(decoding(sure), bandwidthBound, limits)
  t.ok(many >= 6, `${many} sure ones`)
  t.same(chooseDrafts(decoding(unsure), bandwidthBound, limits), [0])
  t.same(chooseDrafts(decoding(sure), computeBound, limits), [0], 'a token costs what it brings')
  const short = { tokens: 2, acceptance: 0.95 }
  t.same(chooseDrafts(decoding(short), bandwidthBound, limits), [2], 'as many as there are')
})

t.test('many drafts are verified where prompts are computed fast', async (t) => {
  // A token takes as long as eight of a prompt, as of models whose weights are dear to unpack.
  const costs = costsOf(6, 40, 5.5)
  const sure = { tokens: 47, acceptance: 0.95 }
  t.ok(chooseDrafts(decoding(sure), costs, limits)[0]! > 7)
  t.same(chooseDrafts(decoding({ ...sure, tokens: 7 }), costs, limits), [0], 'few cost too much')
  t.same(chooseDrafts(decoding({ ...sure, acceptance: 0.5 }), costs, limits), [0])
})

t.test('the step as a whole counts', async (t) => {
  const sure = { tokens: 4, acceptance: 0.95 }
  const full = Array.from({ length: 16 }, (_, index) => (index === 0 ? sure : undefined))
  const costs = costsOf(15, 8)
  t.ok(chooseDrafts(decoding(sure), costs, limits)[0]! > 0, 'alone')
  t.same(
    chooseDrafts(decoding(...full), costs, limits),
    full.map(() => 0),
    'not beside 15 others',
  )
  const rest = { tokens: 16, acceptance: 0.01 }
  const mixed = decoding(rest, rest, rest, rest, { tokens: 16, acceptance: 0.98 })
  t.match(chooseDrafts(mixed, costsOf(15, 2, 0.5), limits), [0, 0, 0, 0, 16], 'only what is likely')
})

t.test('a step keeps to its limits', async (t) => {
  const sure = { tokens: 16, acceptance: 0.98 }
  const costs = costsOf(100, 0.1)
  const sum = (drafts: readonly number[]) => drafts.reduce((total, count) => total + count, 0)
  const four = decoding(sure, sure, sure, sure)
  t.equal(sum(chooseDrafts(four, costs, limits)), 64)
  t.equal(sum(chooseDrafts(four, costs, { batchSize: 20 })), 16)
  t.equal(sum(chooseDrafts(four, costs, { batchSize: 512, outputs: 12 })), 7)
})
