import type { BackendLimits } from '../../contracts/model/backend.js'
import type { DraftView, SequenceView } from '../../contracts/scheduling/scheduler-policy.js'
import type { Chunk, StepCostModel } from '../costs/pass-costs.js'

/** The draft lengths to compare. Together with the token before them, kernels are fastest at multiples of 8. */
const lengths = [1, 2, 3, 4, 5, 7, 11, 15, 23, 31, 47]
/** Drafts must promise this many times the tokens per second, as costs and acceptance are only estimates. */
const margin = 1.1

/**
 * Milliseconds that drafting `count` tokens for each of these requests, named by index, takes before the step.
 */
export type GuessCosts = (indexes: readonly number[], count: number) => number

/** A request with a draft: its index, and the tokens in its slot. */
interface Candidate extends DraftView {
  readonly index: number
  readonly context: number
}

/**
 * How many draft tokens each of these decoding requests verifies in the next step, in their order: the choice with the
 * most expected tokens per second of the whole step by the learned costs, and 0 where drafts do not pay, as under load on
 * a CPU. Pure; O(1) for a step without drafts.
 *
 * @param decoding - the requests that decode
 * @param guessMs - the cost of making the drafts; default: none, they are there
 */
export function chooseDrafts(
  decoding: readonly SequenceView[],
  costs: StepCostModel,
  limits: Pick<BackendLimits, 'batchSize' | 'outputs'>,
  guessMs: GuessCosts = () => 0,
): readonly number[] {
  const drafts = decoding.map(() => 0)
  const candidates = likely(decoding)
  if (candidates.length === 0) return drafts
  const contexts = decoding.map(({ computedTokens }) => computedTokens)
  const spare = Math.min(limits.batchSize, limits.outputs ?? limits.batchSize) - decoding.length
  let best = (margin * decoding.length) / costs.decodeMs(contexts)
  let chosen: { readonly length: number; readonly count: number } | undefined
  for (const length of lengths) {
    for (const count of counts(candidates.length)) {
      const some = candidates.slice(0, count)
      const used = some.reduce((sum, { tokens }) => sum + Math.min(length, tokens), 0)
      if (used > spare) break
      const speed = speedOf(contexts, some, length, costs, guessMs)
      if (speed <= best) continue
      best = speed
      chosen = { length, count }
    }
  }
  if (chosen === undefined) return drafts
  for (const { index, tokens } of candidates.slice(0, chosen.count)) {
    drafts[index] = Math.min(chosen.length, tokens)
  }
  return drafts
}

/** The requests with a draft, the likeliest first. */
function likely(decoding: readonly SequenceView[]): Candidate[] {
  const candidates: Candidate[] = []
  for (const [index, { draft, computedTokens: context }] of decoding.entries()) {
    if (draft !== undefined && draft.tokens > 0) candidates.push({ index, context, ...draft })
  }
  return candidates.sort((a, b) => b.acceptance - a.acceptance)
}

/** How many of the candidates are tried: 1, 2, 4 … and all. */
function* counts(all: number): Iterable<number> {
  for (let count = 1; count < all; count *= 2) yield count
  yield all
}

/** Expected tokens per millisecond. */
function speedOf(
  contexts: readonly number[],
  candidates: readonly Candidate[],
  length: number,
  costs: StepCostModel,
  guessMs: GuessCosts,
): number {
  const verifying: Chunk[] = []
  const isAlone = contexts.map(() => true)
  let expected = contexts.length
  for (const { index, context, tokens, acceptance } of candidates) {
    const drafts = Math.min(length, tokens)
    isAlone[index] = false
    verifying.push({ tokens: 1 + drafts, context })
    let chance = 1
    for (let draft = 0; draft < drafts; draft++) expected += chance *= acceptance
  }
  const decoding = contexts.filter((_, index) => isAlone[index])
  const indexes = candidates.map(({ index }) => index)
  return expected / (costs.decodeMs(decoding, verifying) + guessMs(indexes, length))
}
