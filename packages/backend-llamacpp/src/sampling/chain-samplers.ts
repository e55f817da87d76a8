import type { OutputLogprobs, Sampler, SamplingParams, TokenId, Tokenizer } from '@cllm/core'
import type { LogitsContext } from '../native/logits-context.js'
import type { Vocabulary } from '../text/vocabulary.js'
import type { GrammarFilter } from './chain/constraint-filter.js'
import { ChainSampler } from './chain/chain-sampler.js'
import { SamplerWorkspace } from './chain/sampler-workspace.js'
import type { SamplerFactory, SamplerParts, TokenSampler } from './token-sampler.js'

const filter: GrammarFilter = {
  forbid: (state, ids, logits, size) => state.forbid?.(ids, logits, size),
}

/** Samplers that draw in JavaScript, on the logits where llama.cpp has them. */
export class ChainSamplers implements SamplerFactory {
  readonly seesLogits = true
  readonly #context: LogitsContext
  readonly #workspace: SamplerWorkspace

  constructor(
    context: LogitsContext,
    vocabulary: Vocabulary,
    tokenizer: Pick<Tokenizer, 'encode'>,
  ) {
    this.#context = context
    this.#workspace = new SamplerWorkspace(vocabulary, tokenizer)
  }

  create(
    params: SamplingParams,
    tokens: readonly TokenId[],
    { constraint, processors = [] }: SamplerParts = {},
  ): TokenSampler {
    const checked = constraint && { constraint: { ...constraint, filter } }
    const options = { processors, ...checked }
    return new ContextSampler(
      this.#context,
      new ChainSampler(this.#workspace, params, tokens, options),
    )
  }

  made(sampler: Sampler | undefined): sampler is TokenSampler {
    return sampler instanceof ContextSampler
  }

  dispose(): void {}
}

/** Draws with a chain from the logits of a context. */
class ContextSampler implements TokenSampler {
  readonly #context: LogitsContext
  readonly #sampler: ChainSampler
  #position = 0
  #start = 0
  #tokens: readonly TokenId[] = []
  /** By the index that was drawn from. */
  readonly #drawn = new Map<number, OutputLogprobs>()

  constructor(context: LogitsContext, sampler: ChainSampler) {
    this.#context = context
    this.#sampler = sampler
  }

  prepare(position: number, start: number, tokens: readonly TokenId[]): void {
    this.#position = position
    this.#start = start
    this.#tokens = tokens
  }

  draw(index: number, listed?: number): TokenId {
    const logits = this.#context.logits(index)
    if (logits === undefined) return -1
    const token = this.#sampler.draw(logits, this.#position, this.#start, this.#tokens)
    if (listed !== undefined) this.#drawn.set(index, this.#sampler.drawn(token, listed))
    return token
  }

  drawn(index: number): OutputLogprobs | undefined {
    const logprobs = this.#drawn.get(index)
    this.#drawn.delete(index)
    return logprobs
  }

  logprobs(index: number, token: TokenId, count: number): OutputLogprobs {
    return this.#sampler.logprobs(this.#context.logits(index)!, token, count)
  }

  dispose(): void {
    this.#sampler.dispose()
  }
}
