import type { SamplingParams, TokenId } from '@cllm/core'
import { topKOf } from '../nucleus-candidates.js'
import type { Candidates } from './candidates/candidates.js'
import type { DrawRandom } from './random/draw-random.js'
import type { ChainStep, FinalDraw, LogitChange } from './steps/chain-step.js'
import { GreedyDraw } from './steps/greedy-draw.js'
import { MinP } from './steps/min-p.js'
import { Penalties } from './steps/penalties.js'
import { TemperatureDraw } from './steps/temperature-draw.js'
import { TopK } from './steps/top-k.js'
import { TopP } from './steps/top-p.js'

/** The steps of a request's draws, in llama-server's order. */
export class SamplingChain {
  readonly #changes: readonly LogitChange[]
  readonly #steps: readonly ChainStep[]
  readonly #draw: FinalDraw

  /** @param vocabularySize - in a large one `top_p` alone looks at the likeliest tokens only */
  constructor(params: SamplingParams, vocabularySize: number) {
    const temperature = Math.fround(params.temperature)
    this.#changes = Penalties.isOn(params) ? [new Penalties(params)] : []
    // what the steps leave out is never the likeliest token
    this.#steps = temperature > 0 ? [...stepsOf(params, vocabularySize)] : []
    this.#draw = temperature > 0 ? new TemperatureDraw(temperature) : new GreedyDraw()
  }

  /** Whether a step needs to know the tokens before the one that is drawn. */
  get needsHistory(): boolean {
    return this.#changes.length > 0
  }

  /** Changes the logits of single tokens. */
  change(logits: Float32Array, history: readonly TokenId[]): void {
    for (const change of this.#changes) change.apply(logits, history)
  }

  /** Draws one of the candidates. */
  pick(candidates: Candidates, random: DrawRandom): TokenId {
    for (const step of this.#steps) step.apply(candidates, random)
    return this.#draw.pick(candidates, random)
  }
}

function* stepsOf(params: SamplingParams, vocabularySize: number): Iterable<ChainStep> {
  const { topP, minP } = params
  const topK = topKOf(params, vocabularySize)
  if (topK > 0) yield new TopK(topK)
  if (topP < 1) yield new TopP(topP)
  if (minP > 0) yield new MinP(minP)
}
