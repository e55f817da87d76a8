import type { SamplingParams, TokenId } from '@cllm/core'
import { mixBits } from '@cllm/core/hash'
import type { Candidates } from './candidates/candidates.js'
import {
  type ChainStep,
  type DrawRandom,
  DynamicTemperatureDraw,
  type FinalDraw,
  type LogitChange,
  TemperatureDraw,
} from './steps/draws.js'
import { type BreakerVocabulary, dry, penalties } from './steps/logit-changes.js'
import {
  minPStep,
  mirostatStep,
  topKStep,
  topNSigmaStep,
  topPStep,
  typicalStep,
  xtcStep,
} from './steps/truncation.js'
import type { Vocabulary } from '../../text/vocabulary.js'

/** llama.cpp takes a random seed in place of this one. */
const randomSeed = 0xffffffff

/** The golden ratio in 32 bits: odd, so that multiplying by it is one-to-one. */
const golden = 0x9e3779b9

/**
 * The seed of the draw after `position`: a hash of both, one-to-one in the position, so that two
 * positions of a request never share a seed. The mixer is MurmurHash3's (A. Appleby).
 */
export function seedAt(seed: number, position: number): number {
  const hash = mixBits((mixBits(seed) + Math.imul(position, golden)) | 0)
  return hash === randomSeed ? 0 : hash
}

/**
 * The biases that a request adds to the logits of single tokens; `ignoreEos` becomes a bias, too.
 * @throws CllmError `invalid_token`
 */
export function biasesOf(params: SamplingParams, vocabulary: Vocabulary): Map<TokenId, number> {
  const biases = new Map<TokenId, number>()
  for (const [token, bias] of params.logitBias) {
    vocabulary.check(token)
    biases.set(token, (biases.get(token) ?? 0) + bias)
  }
  if (params.ignoreEos) {
    for (const token of vocabulary.endOfGeneration) biases.set(token, -Infinity)
  }
  return biases
}

/**
 * In vocabularies larger than this a request with `top_p` and without `top_k` draws from the
 * likeliest {@link nucleusCandidates}.
 */
const largeVocabulary = 65_536

/**
 * How many tokens `top_p` looks at in a large vocabulary: sorting all 151,936 tokens takes up to 7 ms per drawn token,
 * sorting 8,192 takes 0.8 ms. The probability of the other tokens was 0.00002 with a well-trained model and 0.01 with a
 * 2-bit one (see docs/decisions/0005-nucleus-candidates.md).
 */
export const nucleusCandidates = 8192

/** The `top_k` of a request's draws; 0: all tokens. */
export function topKOf({ topK, topP }: SamplingParams, vocabularySize: number): number {
  if (topK > 0) return topK
  return topP < 1 && vocabularySize > largeVocabulary ? nucleusCandidates : 0
}

/** Whether a request makes earlier tokens less likely. */
export function hasPenalties(params: SamplingParams): boolean {
  const { repetitionPenalty, presencePenalty, frequencyPenalty, penaltyLastN } = params
  const isAny = repetitionPenalty !== 1 || presencePenalty !== 0 || frequencyPenalty !== 0
  return isAny && penaltyLastN !== 0
}

/** The highest threshold of XTC that has an effect. */
const mostXtcThreshold = 0.5

/** The steps of a request's draws. */
export interface SamplingChain {
  /** Changes of the logits, which need the earlier tokens. */
  readonly changes: readonly LogitChange[]
  readonly steps: readonly ChainStep[]
  readonly draw: FinalDraw
}

/**
 * The steps of a request's draws, in llama-server's order: penalties, DRY, top-nσ, top-k, typical,
 * top-p, min-p, XTC, temperature.
 */
export function createChain(
  params: SamplingParams,
  vocabularySize: number,
  breakers: BreakerVocabulary,
): SamplingChain {
  const changes: LogitChange[] = []
  if (hasPenalties(params)) changes.push(penalties(params))
  if (params.dryMultiplier > 0 && params.dryPenaltyLastN > 0) {
    changes.push(dry(params, breakers))
  }

  const temperature = Math.fround(params.temperature)
  const { topP, minP, typicalP, minKeep, topNSigma, mirostat, mirostatTau } = params
  const { xtcProbability, xtcThreshold, dynamicTemperatureRange: range } = params
  const hasMirostat = mirostat === 2
  const hasXtc = xtcProbability > 0 && xtcThreshold <= mostXtcThreshold
  const steps: ChainStep[] = []
  // at temperature 0 only typical and XTC can leave out the likeliest token
  if (hasMirostat && temperature > 0) steps.push(mirostatStep(mirostatTau, temperature))
  if (!hasMirostat && (temperature > 0 || typicalP < 1 || hasXtc)) {
    const topK = topKOf(params, vocabularySize)
    if (topNSigma > 0) steps.push(topNSigmaStep(topNSigma))
    if (topK > 0) steps.push(topKStep(topK))
    if (typicalP < 1) steps.push(typicalStep(typicalP, minKeep))
    if (topP < 1) steps.push(topPStep(topP, minKeep))
    if (minP > 0) steps.push(minPStep(minP, minKeep))
    if (hasXtc) steps.push(xtcStep(xtcProbability, xtcThreshold, temperature + range, minKeep))
  }

  const isFixed = temperature === 0 || range === 0 || hasMirostat
  const draw = isFixed ? new TemperatureDraw(temperature) : new DynamicTemperatureDraw(params)
  return { changes, steps, draw }
}

/** Draws a token from the scan's logits; undefined if no token can be drawn. */
export function pick(
  { steps, draw }: SamplingChain,
  candidates: Candidates,
  random: DrawRandom,
): TokenId | undefined {
  if (!candidates.begin()) return undefined
  for (const step of steps) step(candidates, random)
  return draw.pick(candidates, random)
}
