import type { Logger, SamplingParams, TokenId, Tokenizer } from '@cllm/core'
import type { LogitsContext } from '../native/native-context.js'
import type { Vocabulary } from '../text/vocabulary.js'
import { DrawThreads, type SharedDraw } from './ahead/draw-threads.js'
import { ChainSampler } from './chain/chain-sampler.js'
import { SamplerWorkspace } from './chain/sampling-chain.js'
import type { PreparedDraw, SamplerFactory, SamplerParts } from './token-sampler.js'

/** How {@link ChainSamplers} draw. */
export interface ChainSamplersOptions {
  /** Threads that draw beside this one. */
  readonly threads: number
  readonly logger: Logger
}

/** Samplers that draw in JavaScript, on the logits where llama.cpp has them. */
export class ChainSamplers implements SamplerFactory {
  readonly seesLogits = true
  readonly drawAhead: SamplerFactory['drawAhead']
  readonly #workspace: SamplerWorkspace
  readonly #threads: DrawThreads | undefined

  constructor(
    context: Pick<LogitsContext, 'logits' | 'logitsAddress'>,
    vocabulary: Vocabulary,
    tokenizer: Pick<Tokenizer, 'encode'>,
    { threads: count, logger }: ChainSamplersOptions,
  ) {
    this.#workspace = new SamplerWorkspace(context, vocabulary, tokenizer)
    if (count === 0) return
    const threads = new DrawThreads({ threads: count, vocabularySize: vocabulary.size, logger })
    this.#threads = threads
    this.drawAhead = (prepared) => drawAhead(threads, prepared)
  }

  create(params: SamplingParams, tokens: readonly TokenId[], parts?: SamplerParts): ChainSampler {
    return new ChainSampler(this.#workspace, params, tokens, parts, this.#threads)
  }

  async dispose(): Promise<void> {
    await this.#threads?.dispose()
  }
}

function drawAhead(threads: DrawThreads, prepared: readonly PreparedDraw[]): void {
  const samplers: ChainSampler[] = []
  const draws: SharedDraw[] = []
  for (const { sampler, index } of prepared) {
    if (!(sampler instanceof ChainSampler)) continue
    const draw = sampler.shared(index)
    if (draw === undefined) continue
    samplers.push(sampler)
    draws.push(draw)
  }
  for (const [nth, token] of (threads.draw(draws) ?? []).entries()) samplers[nth]!.onToken(token)
}
