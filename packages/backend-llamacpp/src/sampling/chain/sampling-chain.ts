import type { SamplingParams, TokenId } from '@cllm/core'
import { topKOf } from '../nucleus-candidates.js'
import type { Candidates } from './candidates/candidates.js'
import type { DrawRandom } from './random/draw-random.js'
import type { ChainStep, FinalDraw, LogitChange } from './steps/chain-step.js'
import { Dry } from './steps/dry.js'
import { DynamicTemperatureDraw } from './steps/dynamic-temperature-draw.js'
import { GreedyDraw } from './steps/greedy-draw.js'
import { MinP } from './steps/min-p.js'
import { Mirostat } from './steps/mirostat.js'
import { Penalties } from './steps/penalties.js'
import type { BreakerVocabulary } from './steps/sequence-breakers.js'
import { TemperatureDraw } from './steps/temperature-draw.js'
import { TopK } from './steps/top-k.js'
import { TopNSigma } from './steps/top-n-sigma.js'
import { TopP } from './steps/top-p.js'
import { Typical } from './steps/typical.js'
import { Xtc } from './steps/xtc.js'

/** The vocabulary that a request's draws are from. */
export interface ChainVocabulary extends BreakerVocabulary {
  /** In a large one `top_p` alone looks at the likeliest tokens only. */
  readonly size: number
}

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
  if (Penalties.isOn(params)) yield new Penalties(params)
  if (Dry.isOn(params)) yield new Dry(params, vocabulary)
}

function* stepsOf(params: SamplingParams, vocabularySize: number): Iterable<ChainStep> {
  const { topP, minP, typicalP, minKeep, topNSigma, temperature, mirostat, mirostatTau } = params
  const { xtcProbability, xtcThreshold, dynamicTemperatureRange } = params
  const hasXtc = Xtc.isOn(xtcProbability, xtcThreshold)
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
