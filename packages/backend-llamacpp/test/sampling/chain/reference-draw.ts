import type { SamplingParams, TokenId } from '@cllm/core'
import { MersenneTwister } from '../../../src/sampling/chain/random/mersenne-twister.js'

const { fround, exp, log } = Math

/** A token that can still be drawn. */
export interface Candidate {
  readonly id: TokenId
  logit: number
  p: number
}

/** llama.cpp's chain as its source has it, over lists of all tokens, in single precision. */
export function referenceDraw(
  logits: Float32Array,
  params: SamplingParams,
  topK: number,
  history: readonly TokenId[],
  seed: number,
): TokenId {
  let candidates = Array.from(logits, (logit, id): Candidate => ({ id, logit, p: 0 }))
  for (const [token, bias] of params.logitBias) {
    candidates[token]!.logit = fround(candidates[token]!.logit + fround(bias))
  }
  penalize(candidates, params, history)
  const temperature = fround(params.temperature)
  const sort = () => candidates.sort((a, b) => b.logit - a.logit || a.id - b.id)
  if (temperature === 0) return sort()[0]!.id
  if (topK > 0) candidates = sort().slice(0, topK)
  if (params.topP < 1) {
    softmax(candidates)
    sort()
    const reach = fround(params.topP)
    let sum = 0
    const last = candidates.findIndex(({ p }) => (sum = fround(sum + p)) >= reach)
    if (last >= 0) candidates = candidates.slice(0, last + 1)
  }
  if (params.minP > 0) {
    const least = fround(largest(candidates) + fround(log(fround(params.minP))))
    candidates = candidates.filter(({ logit }) => logit >= least)
  }
  for (const candidate of candidates) candidate.logit = fround(candidate.logit / temperature)
  return draw(candidates, seed)
}

/** What llama.cpp's `dist` draws. */
export function draw(candidates: readonly Candidate[], seed: number): TokenId {
  const most = largest(candidates)
  const weights = candidates.map(({ logit }) => fround(exp(fround(logit - most))))
  const total = weights.reduce((sum, weight) => sum + weight, 0)
  const twister = new MersenneTwister()
  twister.seed(seed)
  const low = twister.next()
  const target = total * ((low + twister.next() * 2 ** 32) / 2 ** 64)
  let sum = 0
  return candidates[weights.findIndex((weight) => (sum += weight) >= target)]!.id
}

/** The probabilities in the order of the list. */
export function softmax(candidates: readonly Candidate[]): void {
  const most = largest(candidates)
  let total = 0
  for (const candidate of candidates) {
    candidate.p = fround(exp(fround(candidate.logit - most)))
    total = fround(total + candidate.p)
  }
  for (const candidate of candidates) candidate.p = fround(candidate.p / total)
}

function largest(candidates: readonly Candidate[]): number {
  return candidates.reduce((most, { logit }) => Math.max(most, logit), -Infinity)
}

function penalize(
  candidates: readonly Candidate[],
  params: SamplingParams,
  history: readonly TokenId[],
): void {
  const latest = history.slice(-64)
  for (const token of new Set(latest)) {
    const candidate = candidates[token]!
    const count = latest.filter((other) => other === token).length
    const by = fround(params.repetitionPenalty)
    const repeated = fround(candidate.logit <= 0 ? candidate.logit * by : candidate.logit / by)
    const present = fround(params.presencePenalty)
    const less = fround(fround(count * fround(params.frequencyPenalty)) + present)
    candidate.logit = fround(repeated - less)
  }
}
