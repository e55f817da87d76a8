import type { SamplingParams, TokenId } from '@cllm/core'
import type { Candidates } from './candidates/candidates.js'
import type { DrawRandom } from './random.js'
import type { ChainStep, FinalDraw, LogitChange } from './steps/chain-step.js'
import { DynamicTemperatureDraw, GreedyDraw, TemperatureDraw } from './steps/draws.js'
import { type BreakerVocabulary, Dry } from './steps/dry.js'
import { Penalties } from './steps/logit-changes.js'
import { Mirostat } from './steps/mirostat.js'
import { MinP, TopK, TopNSigma, TopP, Typical, Xtc } from './steps/truncation.js'
import { topKOf } from '../draw-settings.js'

/** The vocabulary that a request's draws are from. */
export interface ChainVocabulary extends BreakerVocabulary {
  /** In a large one `top_p` alone looks at the likeliest tokens only. */
  readonly size: number
}

/** With a threshold above this XTC does nothing. */
const mostXtcThreshold = 0.5

/**
 * The steps of a request's draws, in llama-server's order: penalties, DRY, top-nσ, top-k, typical,
 * top-p, min-p, XTC, temperature.
 */
export class SamplingChain {
  readonly #changes: readonly LogitChange[]
  readonly #steps: readonly ChainStep[]
  readonly #draw: FinalDraw

  constructor(params: SamplingParams, vocabulary: ChainVocabulary) {
    const temperature = Math.fround(params.temperature)
    this.#changes = [...changesOf(params, vocabulary)]
    this.#steps = [...stepsOf({ ...params, temperature }, vocabulary.size)]
    this.#draw = drawOf(params, temperature)
  }

  /** Whether a step needs to know the tokens before the one that is drawn. */
  get needsHistory(): boolean {
    return this.#changes.length > 0
  }

  /** Changes the logits of single tokens. */
  change(logits: Float32Array, history: readonly TokenId[]): void {
    for (const change of this.#changes) change.apply(logits, history)
  }

  /** The temperature at which the candidates that {@link pick} left were drawn from; 0: no draw. */
  get temperature(): number {
    return this.#draw.temperature
  }

  /** Draws one of the candidates. */
  pick(candidates: Candidates, random: DrawRandom): TokenId {
    for (const step of this.#steps) step.apply(candidates, random)
    return this.#draw.pick(candidates, random)
  }
}

function* changesOf(params: SamplingParams, vocabulary: BreakerVocabulary): Iterable<LogitChange> {
  const { repetitionPenalty, presencePenalty, frequencyPenalty, penaltyLastN } = params
  const hasPenalties = repetitionPenalty !== 1 || presencePenalty !== 0 || frequencyPenalty !== 0
  if (hasPenalties && penaltyLastN !== 0) yield new Penalties(params)
  const { dryMultiplier, dryPenaltyLastN } = params
  if (dryMultiplier > 0 && dryPenaltyLastN > 0) yield new Dry(params, vocabulary)
}

function* stepsOf(params: SamplingParams, vocabularySize: number): Iterable<ChainStep> {
  const { topP, minP, typicalP, minKeep, topNSigma, temperature, mirostat, mirostatTau } = params
  const { xtcProbability, xtcThreshold, dynamicTemperatureRange } = params
  const hasXtc = xtcProbability > 0 && xtcThreshold <= mostXtcThreshold
  // the other steps never leave out the likeliest token
  if (temperature === 0 && (mirostat === 2 || (typicalP === 1 && !hasXtc))) return
  if (mirostat === 2) {
    yield new Mirostat(mirostatTau, temperature)
    return
  }
  const topK = topKOf(params, vocabularySize)
  if (topNSigma > 0) yield new TopNSigma(topNSigma)
  if (topK > 0) yield new TopK(topK)
  if (typicalP < 1) yield new Typical(typicalP, minKeep)
  if (topP < 1) yield new TopP(topP, minKeep)
  if (minP > 0) yield new MinP(minP, minKeep)
  const drawn = temperature + dynamicTemperatureRange
  if (hasXtc) yield new Xtc(xtcProbability, xtcThreshold, drawn, minKeep)
}

function drawOf(params: SamplingParams, temperature: number): FinalDraw {
  if (temperature === 0) return new GreedyDraw()
  const isFixed = params.dynamicTemperatureRange === 0 || params.mirostat === 2
  return isFixed ? new TemperatureDraw(temperature) : new DynamicTemperatureDraw(params)
}
