import type {
  Logger,
  OutputLogprobs,
  Sampler,
  SamplingParams,
  TokenId,
  Tokenizer,
} from '@cllm/core'
import type { LogitsContext } from '../native/native-context.js'
import { DrawThreads, type SharedDraw } from './ahead/draw-threads.js'
import { ChainSampler, type GrammarFilter } from './chain/chain-sampler.js'
import { SamplerWorkspace } from './chain/sampling-chain.js'
import type { PreparedDraw, SamplerFactory, SamplerParts, TokenSampler } from './token-sampler.js'
import type { Vocabulary } from '../text/vocabulary.js'

const filter: GrammarFilter = {
  forbid: (state, ids, logits, size) => state.forbid?.(ids, logits, size),
}

/** How {@link ChainSamplers} draw. */
export interface ChainSamplersOptions {
  /** Threads that draw beside this one. */
  readonly threads: number
  readonly logger: Logger
}

/** Samplers that draw in JavaScript, on the logits where llama.cpp has them. */
export class ChainSamplers implements SamplerFactory {
  readonly seesLogits = true
  readonly #context: LogitsContext
  readonly #workspace: SamplerWorkspace
  readonly #threads: DrawThreads | undefined

  constructor(
    context: LogitsContext,
    vocabulary: Vocabulary,
    tokenizer: Pick<Tokenizer, 'encode'>,
    { threads, logger }: ChainSamplersOptions,
  ) {
    this.#context = context
    this.#workspace = new SamplerWorkspace(vocabulary, tokenizer)
    const { size: vocabularySize } = vocabulary
    if (threads > 0) this.#threads = new DrawThreads({ threads, vocabularySize, logger })
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
      this.#threads,
    )
  }

  drawAhead(prepared: readonly PreparedDraw[]): void {
    if (this.#threads === undefined) return
    const samplers: ContextSampler[] = []
    const draws: SharedDraw[] = []
    for (const { sampler, index } of prepared) {
      const draw = sampler instanceof ContextSampler ? sampler.shared(index) : undefined
      if (draw === undefined) continue
      samplers.push(sampler as ContextSampler)
      draws.push(draw)
    }
    for (const [nth, token] of (this.#threads.draw(draws) ?? []).entries()) {
      samplers[nth]!.onToken(token)
    }
  }

  made(sampler: Sampler | undefined): sampler is TokenSampler {
    return sampler instanceof ContextSampler
  }

  async dispose(): Promise<void> {
    await this.#threads?.dispose()
  }
}

/** Draws with a chain from the logits of a context. */
class ContextSampler implements TokenSampler {
  readonly #context: LogitsContext
  readonly #sampler: ChainSampler
  readonly #threads: DrawThreads | undefined
  /** Its number among the threads. */
  readonly #shared: number | undefined
  /** What has been drawn ahead. */
  #ahead: TokenId | undefined
  #position = 0
  #start = 0
  #tokens: readonly TokenId[] = []
  /** By the index that was drawn from. */
  readonly #drawn = new Map<number, OutputLogprobs>()

  constructor(context: LogitsContext, sampler: ChainSampler, threads?: DrawThreads) {
    this.#context = context
    this.#sampler = sampler
    this.#threads = threads
    this.#shared = sampler.plain && threads?.add(sampler.plain)
  }

  /** The prepared draw for several threads; undefined where only this sampler can make it. */
  shared(index: number): SharedDraw | undefined {
    if (this.#shared === undefined) return undefined
    const address = this.#context.logitsAddress(index)
    if (address === undefined) return undefined
    const draw = () => this.draw(index)
    return { sampler: this.#shared, position: this.#position, address, draw }
  }

  /** Takes a token that was drawn for it: {@link draw} gives it out. */
  onToken(token: TokenId): void {
    this.#ahead = token
  }

  prepare(position: number, start: number, tokens: readonly TokenId[]): void {
    this.#ahead = undefined
    this.#position = position
    this.#start = start
    this.#tokens = tokens
  }

  draw(index: number, listed?: number): TokenId {
    if (this.#ahead !== undefined) return this.#ahead
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
    if (this.#shared !== undefined) this.#threads?.remove(this.#shared)
  }
}
