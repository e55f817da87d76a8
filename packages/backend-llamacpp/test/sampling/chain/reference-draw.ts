import type { SamplingParams, TokenId } from '@cllm/core'
import { DrawRandom } from '../../../src/sampling/chain/steps/draws.js'

const { fround, exp, log } = Math

/** A token that can still be drawn. */
interface Candidate {
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
  if (temperature > 0 || params.typicalP < 1 || params.xtcProbability > 0) {
    candidates = cut(candidates, params, topK, seed)
  }
  if (temperature === 0) return candidates.toSorted((a, b) => b.logit - a.logit)[0]!.id
  const applied = dynamicTemperature(candidates, params) ?? temperature
  if (applied === 0) return candidates[0]!.id
  for (const candidate of candidates) candidate.logit = fround(candidate.logit / applied)
  return draw(candidates, seed)
}

function cut(
  candidates: Candidate[],
  params: SamplingParams,
  topK: number,
  seed: number,
): Candidate[] {
  let left = topNSigma(candidates, params.topNSigma)
  if (topK > 0) left = sort(left).slice(0, topK)
  left = typical(left, params.typicalP)
  if (params.topP < 1) {
    softmax(left)
    sort(left)
    const reach = fround(params.topP)
    let sum = 0
    const last = left.findIndex(({ p }) => (sum = fround(sum + p)) >= reach)
    if (last >= 0) left = left.slice(0, last + 1)
  }
  if (params.minP > 0) {
    const least = fround(largest(left) + fround(log(fround(params.minP))))
    left = left.filter(({ logit }) => logit >= least)
  }
  return xtc(left, params, seed)
}

function topNSigma(candidates: Candidate[], deviations: number): Candidate[] {
  if (deviations <= 0 || candidates.length <= 1) return candidates
  const mean = candidates.reduce((sum, { logit }) => sum + logit, 0) / candidates.length
  const squares = candidates.reduce((sum, { logit }) => sum + (logit - mean) ** 2, 0)
  const least = largest(candidates) - deviations * Math.sqrt(squares / candidates.length)
  for (const candidate of candidates) if (candidate.logit < least) candidate.logit = -Infinity
  return candidates
}

function typical(candidates: Candidate[], reach: number): Candidate[] {
  if (reach >= 1) return candidates
  softmax(sort(candidates))
  const surprises = candidates.map(({ p }) => fround(-log(p)))
  const entropy = candidates.reduce(
    (sum, { p }, index) => (p === 0 ? sum : fround(sum + fround(p * surprises[index]!))),
    0,
  )
  const order = candidates
    .map((candidate, index) => ({
      candidate,
      distance: Math.abs(fround(surprises[index]! - entropy)),
    }))
    .sort((a, b) => a.distance - b.distance)
    .map(({ candidate }) => candidate)
  let sum = 0
  const last = order.findIndex(({ p }) => (sum = fround(sum + p)) > fround(reach))
  return last < 0 ? order : order.slice(0, last + 1)
}

function xtc(candidates: Candidate[], params: SamplingParams, seed: number): Candidate[] {
  const { xtcProbability, xtcThreshold } = params
  if (xtcProbability <= 0 || xtcThreshold > 0.5 || candidates.length < 2) return candidates
  const twister = new DrawRandom()
  twister.seed(seed)
  if (fround(twister.output(0)) / 2 ** 32 > fround(xtcProbability)) return candidates
  softmax(sort(candidates))
  const above = candidates.filter(({ p }) => p >= fround(xtcThreshold)).length
  return candidates.slice(Math.max(0, above - 1))
}

function dynamicTemperature(candidates: Candidate[], params: SamplingParams): number | undefined {
  const range = fround(params.dynamicTemperatureRange)
  if (range === 0 || candidates.length <= 1) return undefined
  softmax(sort(candidates))
  const entropy = candidates.reduce(
    (sum, { p }) => (p > 0 ? fround(sum - fround(p * fround(log(p)))) : sum),
    0,
  )
  const share = fround(entropy / fround(log(candidates.length)))
  const least = Math.max(0, fround(fround(params.temperature) - range))
  const most = fround(fround(params.temperature) + range)
  const power = fround(share ** fround(params.dynamicTemperatureExponent))
  return fround(least + fround(fround(most - least) * power))
}

function sort(candidates: Candidate[]): Candidate[] {
  return candidates.sort((a, b) => b.logit - a.logit || a.id - b.id)
}

/** What llama.cpp's `dist` draws. */
function draw(candidates: readonly Candidate[], seed: number): TokenId {
  const most = largest(candidates)
  const weights = candidates.map(({ logit }) => fround(exp(fround(logit - most))))
  const total = weights.reduce((sum, weight) => sum + weight, 0)
  const twister = new DrawRandom()
  twister.seed(seed)
  const target = total * ((twister.output(0) + twister.output(1) * 2 ** 32) / 2 ** 64)
  let sum = 0
  return candidates[weights.findIndex((weight) => (sum += weight) >= target)]!.id
}

/** The probabilities in the order of the list. */
function softmax(candidates: readonly Candidate[]): void {
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
