import type { Learner } from '../services.js'
import type {
  AppliedAdapter,
  BackendAdapters,
  EmbedMixed,
  ModelInfo,
  MediaEncoder,
  MediaSpan,
} from './model-info.js'
import type { OutputConstraint, Proposal, LogitProcessor } from './drawing.js'
import type { TokenId, Tokenizer } from './tokenizer.js'
import type { SlotId, SlotStates } from './states.js'
import type { SamplingParams } from './sampling.js'
import type { CllmError } from '../../errors/cllm-error.js'

export type { SlotId } from './states.js'
export type { ModelDetails, ModelInfo } from './model-info.js'

/** The limits of a backend. */
export interface BackendLimits {
  /** The number of slots: sequences that can be in memory at once. */
  readonly slots: number
  /** Tokens per slot. */
  readonly contextSize: number
  /**
   * If all slots share one pool of KV cells: the tokens that the pool holds, at least `contextSize`. Tokens copied by
   * `copyPrefix` count once. Default: each slot has its own cells.
   */
  readonly kvTokens?: number
  /** Tokens per step, over all sequences. */
  readonly batchSize: number
  /** Prompt chunks whose length is a multiple of this are computed fastest; default 1: all lengths are equally good. */
  readonly chunkMultiple?: number
  /** The most tokens of a chunk that round as single ones do: answers are computed again in such. Default: no limit. */
  readonly replayTokens?: number
  /** The most tokens of an input for embeddings; default: `contextSize`. */
  readonly embeddingTokens?: number
  /** The most inputs for embeddings in one pass, together with at most `embeddingTokens` tokens; default: 1. */
  readonly embeddingInputs?: number
  /** The most outputs of a step, at least one per slot; default: `batchSize`. */
  readonly outputs?: number
}

/**
 * What the backend can do beyond plain generation. Constraints, embeddings, context shift, adapters and states are not
 * listed: there, the presence of the method tells. A request that needs a missing capability gets a 400.
 */
export interface BackendCapabilities {
  /** Whether it generates text; false: only embeddings, and `step` is never called. Default: true. */
  readonly generates?: boolean
  readonly logprobs: boolean
  /**
   * Whether samplers see all logits: plug-ins' samplers, DRY, typical-p, top-nσ, XTC, mirostat, a
   * dynamic temperature and `minKeep`. Default: false.
   */
  readonly samplers?: boolean
  /** Whether items may ask for {@link BatchItem.drawLogprobs}. Default: false. */
  readonly drawLogprobs?: boolean
  /** Whether items may ask for {@link BatchItem.scores}. Default: false. */
  readonly promptLogprobs?: boolean
  /**
   * Whether drafts can be verified: a step takes {@link BatchItem.drafts}, and `truncate` can remove exactly the last few
   * tokens of a slot. Default: false, and no sequence has drafts.
   */
  readonly drafts?: boolean
  /** `cuda`, `metal`, `vulkan`, or false on the CPU. */
  readonly gpu: string | false
}

/** Samples the tokens of one sequence. Made and understood by the backend, opaque to the engine. */
export interface Sampler {
  /**
   * The next tokens, at most `most`, whose text the constraint forces, in the tokens that the model would probably
   * choose. They are drafts: wrong ones cost time and never change the output. Called between steps for every token, so
   * it should return within microseconds where nothing is forced. Left out without a constraint.
   * @param tokens - all tokens of the sequence so far
   */
  forced?(tokens: readonly TokenId[], most: number): Proposal
  /** Frees its memory. Called once, between steps. */
  dispose(): void
}

/** Some tokens of one sequence: a prompt chunk, or the one token of a decode. */
export interface BatchItem {
  readonly slot: SlotId
  /** The position of `tokens[0]`: the number of tokens already in the slot. */
  readonly position: number
  /**
   * How many earlier tokens {@link Backend.shift} has removed from the slot. The sampler, which knows all tokens, adds
   * them to positions. Default: 0.
   */
  readonly discarded?: number
  readonly tokens: readonly TokenId[]
  /** Whether it is of an answer that is computed again, under {@link BackendLimits.replayTokens}. Default: false. */
  readonly isReplay?: boolean
  /** The vectors of images or sounds in place of some of the tokens. Needs {@link Backend.media}. */
  readonly media?: readonly MediaSpan[]
  /**
   * The positions (not indexes) after which a token is sampled, in rising order, all within this item. Empty: prefill
   * only; several: speculation, echo.
   */
  readonly outputs: readonly number[]
  /**
   * How many of the last tokens are draft tokens. Outputs are wanted at the token before the drafts and at each draft
   * token. They are sampled in order up to the first one that differs from the item's next token, which rejects the rest.
   * The slot holds all tokens of the item afterwards; the engine removes the rejected ones. Needs the capability
   * `drafts`. Default: 0.
   */
  readonly drafts?: number
  /** Needed when there are outputs. */
  readonly sampler?: Sampler
  /**
   * Asks for log probabilities with each output: of the sampled token, and of this many likeliest tokens (0 to 20). Needs
   * the capability `logprobs`. Default: none.
   */
  readonly logprobs?: number
  /**
   * As `logprobs`, in its place, but by the distribution from which the token was drawn: after temperature, penalties,
   * bias, top-k and the like, and constraints. Lists only tokens that could be drawn. Needs the capability
   * `drawLogprobs`.
   */
  readonly drawLogprobs?: number
  /**
   * The adapters to compute with, the same for all items of a step and for all tokens of a slot. Needs
   * {@link Backend.adapters}. Default: none.
   */
  readonly adapters?: readonly AppliedAdapter[]
  /** Asks for the log probabilities of known tokens. Needs the capability `promptLogprobs`. */
  readonly scores?: ScoredTokens
}

/** Known tokens of a sequence whose log probabilities are wanted. */
export interface ScoredTokens {
  /** A position within the item; the first of the scored tokens is the one after it, and the others follow. */
  readonly position: number
  /** One token for each position from there on, at most to the item's end. */
  readonly tokens: readonly TokenId[]
  /** The number of likeliest candidates listed with each token, 0 to 20. */
  readonly top: number
}

/** A token with the natural logarithm of its probability. */
export interface TokenLogprob {
  readonly token: TokenId
  readonly logprob: number
}

/**
 * Log probabilities by the model's own distribution: before temperature, penalties, bias, top-k and the like, and
 * constraints; after them with {@link BatchItem.drawLogprobs}.
 */
export interface OutputLogprobs {
  /** Of the sampled token. */
  readonly logprob: number
  /** The requested number of likeliest candidates, in falling order. */
  readonly top: readonly TokenLogprob[]
}

/** The token sampled after one wanted position. */
export interface StepOutput {
  /** The wanted position; the sampled token belongs at `position + 1`. */
  readonly position: number
  readonly token: TokenId
  /** Only if the item asked for them. */
  readonly logprobs?: OutputLogprobs
}

/** The result of one step. */
export interface StepResult {
  /**
   * For each item of the batch, in order: one entry per wanted position; with drafts, one per sampled token.
   */
  readonly outputs: readonly (readonly StepOutput[])[]
  /**
   * For each item of the batch, in order: one entry per scored token. May be left out if no item has
   * {@link BatchItem.scores}.
   */
  readonly scores?: readonly (readonly OutputLogprobs[])[]
  /** The errors of items that failed, by index in the batch; the content of their slots is unknown. Default: none. */
  readonly errors?: ReadonlyMap<number, CllmError>
  /** Milliseconds in the forward pass. */
  readonly decodeMs: number
  /** Milliseconds in sampling. */
  readonly sampleMs: number
  /** Whether {@link Backend.interrupt} ended the step: no slot has changed, and there are no outputs. Default: false. */
  readonly isInterrupted?: boolean
}

/**
 * Runs a model: one forward pass over a batch of sequences at a time. One engine makes all calls, never two at once,
 * except that all but `step` may be called beside `embed`. `truncate`, `copyPrefix` and `release` are only called between
 * steps.
 */
export interface Backend extends Learner {
  readonly specificationVersion: 1
  readonly model: ModelInfo
  readonly limits: BackendLimits
  readonly capabilities: BackendCapabilities
  readonly tokenizer: Tokenizer
  /** How many more tokens fit into the pool of KV cells. Required with `limits.kvTokens`. */
  readonly freeTokens?: number | undefined

  /**
   * A sampler for the sequence whose tokens so far (prompt and generated) are `tokens`. The random numbers of a draw must
   * depend on (seed, position) only, so that a preempted, moved or continued sequence draws the same tokens.
   * @param promptTokens - how many of the tokens are the prompt; the tokens after it were sampled, and a constraint
   *   applies to them. Default: all of them.
   * @param processors - the samplers of `params.samplers`, in their order, to be applied to the logits of each draw
   *   before anything else. Needs the capability `samplers`. Default: none.
   */
  createSampler(
    params: SamplingParams,
    tokens: readonly TokenId[],
    promptTokens?: number,
    processors?: readonly LogitProcessor[],
  ): Sampler

  /**
   * Checks that a sampler can be made with this constraint, and prepares that: at once if it is quick, as steps wait
   * meanwhile, or with a promise. Left out by a backend without constraints.
   * @param signal - aborted when nothing waits for the promise any more; it may then reject with the signal's reason
   * @param tenant - who waits; a backend that checks one after the other may let tenants take turns
   * @throws CllmError `invalid_constraint` saying what cannot be honoured, and where
   */
  checkConstraint?(
    constraint: OutputConstraint,
    signal?: AbortSignal,
    tenant?: string,
  ): void | Promise<void>

  /**
   * One forward pass over the whole batch, then sampling. Never called during a step. If it rejects, no slot has changed.
   */
  step(batch: readonly BatchItem[]): Promise<StepResult>

  /**
   * Asks the running step to end as soon as it can, since something more urgent has arrived. The step resolves with
   * `isInterrupted`, or as usual if it is almost done or should not be interrupted. Returns at once; does nothing while no
   * step is running. Left out by a backend whose steps cannot be interrupted.
   */
  interrupt?(): void

  /**
   * The embeddings of one or several inputs, in their order: pooled as the model requires and of length 1. Where the
   * model's detail `pooling` is `none`: the vectors of an input's tokens, one after the other. Several inputs are within
   * `limits.embeddingInputs` and `limits.embeddingTokens`. Uses no slot. Never called during a step or another `embed`;
   * slots may be copied, cut, saved and restored meanwhile, and a backend with one context for both must put such calls
   * in order itself. Left out by a backend without embeddings.
   */
  embed?(
    inputs: readonly (readonly TokenId[])[],
    adapters?: readonly AppliedAdapter[],
  ): Promise<readonly (readonly number[])[]>

  /** As `embed`, for one input with images or sounds; left out by a backend that cannot. */
  readonly embedMixed?: EmbedMixed

  /**
   * Drops the slot's tokens from `length` on, and returns the length really kept: a sliding-window or recurrent model may
   * have to drop more.
   */
  truncate(slot: SlotId, length: number): number

  /** Copies the first `length` tokens of `from` into `to`, replacing its content; returns the length really there. */
  copyPrefix(from: SlotId, to: SlotId, length: number): Promise<number>

  /**
   * Removes `discard` tokens behind the first `keep` from the slot, and moves the tokens behind them forward.
   * Synchronous, between steps. Left out by a backend that cannot.
   */
  shift?(slot: SlotId, keep: number, discard: number): void

  /** Empties the slot. */
  release(slot: SlotId): void

  /** Saves and restores the contents of slots; left out by a backend that cannot. */
  readonly states?: SlotStates

  /** Encodes images and sounds; left out by a backend whose model takes none. */
  readonly media?: MediaEncoder

  /** Loads adapters; left out by a backend that cannot. */
  readonly adapters?: BackendAdapters

  /**
   * The preferred free slot for a new sequence. `free` is never empty, and ordered by the cost of losing the content:
   * empty slots first, then the least recently used.
   */
  preferSlot(free: readonly SlotId[], used: readonly SlotId[]): SlotId

  /**
   * For backends where steps take longer with some sets of slots: the milliseconds that each step takes longer with
   * sequences in these slots (in no order, each once) than with as many in the best slots; 0: none. The engine weighs it
   * when it chooses slots, and may move sequences with `copyPrefix` and `release`. Left out where all are equally good.
   */
  layoutMs?(used: readonly SlotId[]): number

  /** Frees the model and its memory. */
  dispose(): Promise<void>
}
