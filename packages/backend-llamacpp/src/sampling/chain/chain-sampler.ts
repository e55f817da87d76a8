import {
  CllmError,
  type LogitProcessor,
  type OutputLogprobs,
  type Sampler,
  type SamplingParams,
  type TokenId,
} from '@cllm/core'
import type { ConstraintGrammar } from '../../grammar/constraint-grammars.js'
import { refused } from '../../grammar/refuse.js'
import type { NativeGrammarState } from '../../native/native.js'
import { drawnLogprobs, rawLogprobs } from './logprobs.js'
import {
  biasesOf,
  type PlainDrawSettings,
  type SamplerWorkspace,
  SamplingChain,
  seedAt,
} from './sampling-chain.js'
import { LogitBias } from './steps/logit-changes.js'
import { ConstraintTrack, type DrawConfig } from '../constraint-track.js'

/** What a {@link ChainSampler} is made with beside a request's parameters. */
export interface ChainSamplerOptions {
  /** Of plug-ins, in their order; default: none. */
  readonly processors?: readonly LogitProcessor[]
  /** Default: none. */
  readonly constraint?: ChainConstraint
}

/** What the output of a {@link ChainSampler} must keep to. */
export interface ChainConstraint {
  readonly grammar: ConstraintGrammar
  /** How many of the sequence's tokens are its prompt. */
  readonly promptTokens: number
  readonly filter: GrammarFilter
}

const noTokens: readonly TokenId[] = []

const noToken = (): CllmError => new CllmError('backend_failed', 'no token can be drawn')

const noneAllowed = (): CllmError => {
  const reason = 'none of the tokens that this model may write can come next'
  return refused(`The constraint cannot be kept to: ${reason}`, { reason })
}

/**
 * Draws the tokens of one sequence from logits that can be read: the same tokens as
 * llama.cpp's samplers draw, as a function of seed, position and history alone.
 */
export class ChainSampler implements Sampler {
  readonly #workspace: SamplerWorkspace
  readonly #processors: readonly LogitProcessor[]
  readonly #chain: SamplingChain
  readonly #seed: number
  readonly #history: History | undefined
  readonly #constraint: ConstraintTrack | undefined
  readonly #filter: GrammarFilter | undefined
  /** Biases, and the state of the grammar, as the constraint last left them. */
  readonly #config: DrawConfig = {}
  /** What its draws depend on, where neither earlier tokens nor a grammar nor processors count. */
  readonly plain: PlainDrawSettings | undefined
  #bias: LogitBias | undefined
  #disposed = false

  /**
   * @param tokens - those that the sequence has so far
   * @throws CllmError `invalid_token` when a bias is for no token
   */
  constructor(
    workspace: SamplerWorkspace,
    params: SamplingParams,
    tokens: readonly TokenId[],
    { processors = [], constraint }: ChainSamplerOptions = {},
  ) {
    const { vocabulary } = workspace
    this.#workspace = workspace
    this.#processors = processors
    this.#chain = new SamplingChain(params, workspace)
    this.#seed = params.seed
    const needsHistory = this.#chain.needsHistory || processors.length > 0
    this.#history = needsHistory ? new History(tokens) : undefined
    const biases = biasesOf(params, vocabulary)
    if (biases.size > 0) {
      this.#config.tokenBiasKeys = Uint32Array.from(biases.keys())
      this.#config.tokenBiasValues = Float32Array.from(biases.values())
    }
    if (constraint === undefined && !needsHistory) {
      const { tokenBiasKeys: keys, tokenBiasValues: values } = this.#config
      const biases = keys && values && { tokens: keys, values }
      this.plain = { params: { ...params, logitBias: [] }, ...(biases && { biases }) }
    }
    if (constraint !== undefined) {
      const { grammar, promptTokens, filter } = constraint
      this.#constraint = new ConstraintTrack(grammar, vocabulary, tokens, promptTokens)
      this.#constraint.limit(this.#config)
      this.#filter = filter
    }
  }

  /** @throws CllmError `backend_failed` when it was disposed of */
  check(): void {
    if (!this.#disposed) return
    throw new CllmError('backend_failed', 'the sampler is used after it was disposed of')
  }

  /**
   * Draws the token after `position`.
   * @param logits - of that position; they are not changed
   * @param tokens - the tokens of the batch item, starting at position `start`
   * @throws CllmError `invalid_constraint` when the constraint allows no token, `backend_failed` when none
   * can be drawn
   */
  draw(logits: Float32Array, position: number, start: number, tokens: readonly TokenId[]): TokenId {
    this.check()
    const { scan, random } = this.#workspace
    const history = this.#history?.upTo(position, start, tokens) ?? noTokens
    this.#constraint?.prepare(this.#config, position, start, tokens)
    random.seed(seedAt(this.#seed, position))
    scan.load(logits)
    this.#process(position, history)
    this.#addBiases()
    this.#chain.change(scan.logits, history)
    const token = this.#keepToConstraint(this.#pick())
    this.#constraint?.accept(token)
    return token
  }

  /**
   * The log probabilities of the same logits that a token was drawn from.
   * @param count - how many of the likeliest tokens, 0 to 20
   */
  logprobs(logits: Float32Array, token: TokenId, count: number): OutputLogprobs {
    return rawLogprobs(this.#workspace, logits, token, count)
  }

  /**
   * How likely the tokens were in the draw that has just been made: before any other sampler of the model
   * draws.
   * @param count - how many of the likeliest tokens, 0 to 20
   */
  drawn(token: TokenId, count: number): OutputLogprobs {
    return drawnLogprobs(this.#workspace, this.#chain, token, count)
  }

  dispose(): void {
    this.#disposed = true
    this.#constraint?.dispose()
  }

  #pick(none = noToken): TokenId {
    const { candidates, random } = this.#workspace
    if (!candidates.begin()) throw none()
    return this.#chain.pick(candidates, random)
  }

  /**
   * Tests the drawn token alone, which is the quick way; only when the grammar refuses it are all
   * tokens tested, and another one is drawn with further random numbers. As node-llama-cpp does it.
   */
  #keepToConstraint(token: TokenId): TokenId {
    const { grammarEvaluationState: state } = this.#config
    const filter = this.#filter
    if (state === undefined || filter === undefined || allows(filter, state, token)) return token
    const { scan, ids } = this.#workspace
    filter.forbid(state, ids, scan.logits, scan.size)
    return this.#pick(noneAllowed)
  }

  #process(position: number, tokens: readonly TokenId[]): void {
    if (this.#processors.length === 0) return
    const { scan } = this.#workspace
    // without what is behind the vocabulary's end
    const logits = scan.logits.subarray(0, scan.size)
    for (const processor of this.#processors) processor.apply(logits, { position, tokens })
  }

  #addBiases(): void {
    const { tokenBiasKeys: keys, tokenBiasValues: values } = this.#config
    if (keys === undefined || values === undefined) return
    if (this.#bias?.tokens !== keys) this.#bias = new LogitBias(keys, values)
    this.#bias.apply(this.#workspace.scan.logits)
  }
}

/** Asks llama.cpp which tokens a grammar allows next. */
export interface GrammarFilter {
  /** Sets the logits of those of the first `size` tokens to −Infinity that it does not allow. */
  forbid(state: NativeGrammarState, ids: Int32Array, logits: Float32Array, size: number): void
}

const oneId = new Int32Array(1)
const oneLogit = new Float32Array(1)

/** Whether the grammar allows this token. */
function allows(filter: GrammarFilter, state: NativeGrammarState, token: TokenId): boolean {
  oneId[0] = token
  oneLogit[0] = 1
  filter.forbid(state, oneId, oneLogit, 1)
  return oneLogit[0] > -Infinity
}

/** The tokens of a sequence up to where it is drawn from. */
export class History {
  readonly #tokens: TokenId[]

  /** @param tokens - those that the sequence had when its sampler was made */
  constructor(tokens: readonly TokenId[]) {
    this.#tokens = tokens.slice()
  }

  /**
   * All tokens up to `position`. The list is the history's own and changes with the next call.
   * @param tokens - the tokens of the batch item, starting at position `start`
   * @throws CllmError `backend_failed` when tokens before `start` are not known
   */
  upTo(position: number, start: number, tokens: readonly TokenId[]): readonly TokenId[] {
    const known = this.#tokens
    if (start > known.length) {
      throw new CllmError(
        'backend_failed',
        `the sampler knows ${known.length} tokens of its sequence, and is used at ${start}`,
      )
    }
    known.length = start
    for (let index = 0; index <= position - start; index++) known.push(tokens[index] ?? 0)
    return known
  }
}
