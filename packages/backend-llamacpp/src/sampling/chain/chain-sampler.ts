import {
  CllmError,
  defined,
  type LogitProcessor,
  type OutputLogprobs,
  type SamplingParams,
  type TokenId,
  type Logger,
  type Tokenizer,
} from '@cllm/core'
import { SamplerWorkspace } from './sampler-workspace.js'
import { biasesOf, createChain, pick, type SamplingChain, seedAt } from './sampling-chain.js'
import { addBiases, allowOnly } from './steps/logit-changes.js'
import { DrawThreads, type SharedDraw } from '../ahead/draw-threads.js'
import {
  type Biases,
  type ConstraintTrack,
  listed,
  noneAllowed,
  withinGrammar,
} from '../constraint-track.js'
import {
  knownTokens,
  type SamplerParts,
  TokenSampler,
  type PreparedDraw,
  type SamplerFactory,
} from '../token-sampler.js'
import type { LogitsContext } from '../../native/native-context.js'
import type { Vocabulary } from '../../text/vocabulary.js'

const noTokens: readonly TokenId[] = []

/**
 * Draws the tokens of one sequence from logits that can be read. It draws the same tokens as llama.cpp's samplers,
 * which depend only on the logits, the seed, the position and the history.
 */
export class ChainSampler extends TokenSampler {
  readonly #workspace: SamplerWorkspace
  readonly #processors: readonly LogitProcessor[]
  readonly #chain: SamplingChain
  readonly #seed: number
  /** The sequence's tokens; only kept if a step needs them. */
  readonly #history: TokenId[] | undefined
  readonly #constraint: ConstraintTrack | undefined
  readonly #biases: Biases | undefined
  /** The biases while the grammar applies; without a grammar, the same as `#biases`. */
  readonly #bounded: Biases | undefined
  /** The threads that may draw for this sampler, and its number there; undefined: only this sampler can draw. */
  readonly #shared: { readonly threads: DrawThreads; readonly sampler: number } | undefined
  /** The token that these threads have drawn ahead. */
  #ahead: TokenId | undefined
  /** The prepared draw: behind `position`, in a batch item with these tokens from position `start` on. */
  #place = { position: 0, start: 0, tokens: noTokens }
  /** The log probabilities of draws, by the index that was drawn from. */
  readonly #drawn = new Map<number, OutputLogprobs>()
  #disposed = false

  /**
   * @param tokens - the tokens of the sequence so far
   * @param threads - may make draws that depend on nothing but logits, seed and position
   * @throws CllmError `invalid_token` if a bias is for an unknown token
   */
  constructor(
    workspace: SamplerWorkspace,
    params: SamplingParams,
    tokens: readonly TokenId[],
    { processors = [], constraint }: SamplerParts = {},
    threads?: DrawThreads,
  ) {
    super()
    const { vocabulary } = workspace
    this.#workspace = workspace
    this.#processors = processors
    this.#chain = createChain(params, vocabulary.size, workspace.breakers)
    this.#seed = params.seed
    const needsHistory = this.#chain.changes.length > 0 || processors.length > 0
    if (needsHistory) this.#history = tokens.slice()
    const biases = biasesOf(params, vocabulary)
    if (biases.size > 0) this.#bounded = this.#biases = listed(biases)
    if (constraint !== undefined) {
      this.#constraint = constraint
      this.forced = constraint.forced
      if (biases.size > 0) this.#bounded = listed(withinGrammar(biases, vocabulary))
    }
    // biases change when a grammar begins to apply at a trigger
    const isPlain = constraint?.mayBegin !== true || biases.size === 0
    if (threads !== undefined && !needsHistory && isPlain) {
      const plain = { ...params, logitBias: [] }
      const sampler = threads.add({ params: plain, ...defined({ biases: this.#bounded }) })
      this.#shared = { threads, sampler }
    }
  }

  /**
   * The prepared draw in a form that any thread can make; with a constraint this is the first try. Undefined if only
   * this sampler can make it.
   */
  shared(index: number): SharedDraw | undefined {
    if (this.#shared === undefined) return undefined
    const address = this.#workspace.context.logitsAddress(index)
    if (address === undefined) return undefined
    const draw = () => this.#choose(this.#workspace.context.logits(index)!, this.#bounded)
    return { sampler: this.#shared.sampler, position: this.#place.position, address, draw }
  }

  /** Takes a token that a thread has drawn for this sampler; {@link draw} then returns it. */
  onToken(token: TokenId): void {
    this.#ahead = token
  }

  prepare(position: number, start: number, tokens: readonly TokenId[]): void {
    this.#ahead = undefined
    this.#place = { position, start, tokens }
  }

  /**
   * Draws from logits, without changing them.
   * @throws CllmError `invalid_constraint` if the constraint allows no token, `backend_failed` if none can be drawn
   */
  draw(index: number, likeliest?: number): TokenId {
    const [ahead, constraint] = [this.#ahead, this.#constraint]
    if (ahead !== undefined && constraint === undefined) return ahead
    if (this.#disposed) {
      throw new CllmError('backend_failed', 'the sampler is used after it was disposed of')
    }
    const given = this.#workspace.context.logits(index)
    if (given === undefined) return -1
    const { position, start, tokens } = this.#place
    const holds = constraint?.prepare(position, start, tokens)
    if (ahead !== undefined && constraint?.take(ahead) === true) return ahead
    let token = this.#choose(given, holds === true ? this.#bounded : this.#biases)
    // It is faster to test only the drawn token first, as node-llama-cpp does.
    if (constraint?.take(token) === false) token = this.#chooseAllowed(constraint)
    if (likeliest !== undefined) {
      const { temperature } = this.#chain.draw
      this.#drawn.set(index, this.#workspace.drawnLogprobs(temperature, token, likeliest))
    }
    return token
  }

  /** Draws as if there were no constraint. */
  #choose(given: Float32Array, biases: Biases | undefined): TokenId {
    const { scan, random, candidates } = this.#workspace
    const { logits } = scan
    const { position, start, tokens } = this.#place
    const history = this.#history ? knownTokens(this.#history, position, start, tokens) : noTokens
    random.seed(seedAt(this.#seed, position))
    logits.set(given)
    if (this.#processors.length > 0) {
      // without the padding behind the vocabulary
      const all = logits.subarray(0, scan.size)
      for (const processor of this.#processors) processor.apply(all, { position, tokens: history })
    }
    if (biases !== undefined) addBiases(logits, biases.tokens, biases.values)
    for (const change of this.#chain.changes) change(logits, history)
    const token = pick(this.#chain, candidates, random)
    if (token === undefined) throw new CllmError('backend_failed', 'no token can be drawn')
    return token
  }

  /** Draws once more, from the last draw's changed logits, only among tokens that the constraint allows. */
  #chooseAllowed(constraint: ConstraintTrack): TokenId {
    const { scan, random, candidates } = this.#workspace
    allowOnly(scan.logits, constraint.mask())
    const token = pick(this.#chain, candidates, random)
    if (token === undefined) throw noneAllowed()
    constraint.take(token)
    return token
  }

  override drawn(index: number): OutputLogprobs | undefined {
    const logprobs = this.#drawn.get(index)
    this.#drawn.delete(index)
    return logprobs
  }

  logprobs(index: number, token: TokenId, count: number): OutputLogprobs {
    return this.#workspace.rawLogprobs(this.#workspace.context.logits(index)!, token, count)
  }

  dispose(): void {
    this.#disposed = true
    this.#shared?.threads.remove(this.#shared.sampler)
  }
}

/** Makes samplers that draw in JavaScript, from the logits in llama.cpp's own memory. */
export class ChainSamplers implements SamplerFactory {
  readonly seesLogits = true
  readonly drawAhead: SamplerFactory['drawAhead']
  readonly #workspace: SamplerWorkspace
  readonly threads: DrawThreads | undefined

  /** @param count - the number of threads that draw beside this one */
  constructor(
    context: Pick<LogitsContext, 'logits' | 'logitsAddress'>,
    vocabulary: Vocabulary,
    tokenizer: Pick<Tokenizer, 'encode'>,
    count: number,
    logger: Logger,
  ) {
    this.#workspace = new SamplerWorkspace(context, vocabulary, tokenizer)
    if (count === 0) return
    const threads = new DrawThreads(count, vocabulary.size, logger)
    this.threads = threads
    this.drawAhead = (prepared) => drawAhead(threads, prepared)
  }

  create(params: SamplingParams, tokens: readonly TokenId[], parts?: SamplerParts): ChainSampler {
    return new ChainSampler(this.#workspace, params, tokens, parts, this.threads)
  }

  async dispose(): Promise<void> {
    await this.threads?.dispose()
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
  for (const [nth, token] of (threads.draw(draws) ?? []).entries()) {
    // If a thread could not draw, the sampler draws again, or throws the reason.
    if (token >= 0) samplers[nth]!.onToken(token)
  }
}
