import type { Learner } from '../services.js'
import type {
  AppliedAdapter,
  BackendAdapters,
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

/** What fits. */
export interface BackendLimits {
  /** Sequences that can be in memory at once. */
  readonly slots: number
  /** Tokens per slot. */
  readonly contextSize: number
  /**
   * Tokens that all slots hold together, at least `contextSize`, where they share one pool of KV cells:
   * tokens that `copyPrefix` copied count once. Default: each slot has cells of its own.
   */
  readonly kvTokens?: number
  /** Tokens per step, over all sequences. */
  readonly batchSize: number
  /**
   * Prompt chunks of a multiple of this many tokens are computed fastest; default 1: any length is as
   * good.
   */
  readonly chunkMultiple?: number
  /** Most tokens of an embedding's input; default: `contextSize`. */
  readonly embeddingTokens?: number
  /**
   * Most inputs whose embeddings one pass computes, together of at most `embeddingTokens`; default: 1.
   */
  readonly embeddingInputs?: number
  /** Most outputs of a step, at least one per slot; default: `batchSize`. */
  readonly outputs?: number
}

/**
 * What the backend can do beyond plain generation, as far as no method says so by being there: constraints,
 * embeddings, context shift, adapters and states do. A request for what is missing gets a 400.
 */
export interface BackendCapabilities {
  /**
   * Whether it writes text: a model that reads a text as a whole, as those for embeddings do, cannot. Then
   * `step` is never called. Default: true.
   */
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
   * Whether drafts can be verified: a step takes {@link BatchItem.drafts}, and `truncate` takes a few
   * tokens off a slot and nothing else. Default: false, and no sequence has drafts.
   */
  readonly drafts?: boolean
  /** `cuda`, `metal`, `vulkan`, or false on the CPU. */
  readonly gpu: string | false
}

/** Draws tokens for one sequence. Opaque to the engine, made and understood by the backend. */
export interface Sampler {
  /**
   * The next tokens, at most `most`, as far as the constraint leaves no choice of their text, written as the
   * model probably would. They are drafts: what is wrong about them costs time and never changes the output.
   * Called between steps for every token, so it should return within microseconds where nothing is forced.
   * Left out without a constraint.
   * @param tokens - all tokens of the sequence so far
   */
  forced?(tokens: readonly TokenId[], most: number): Proposal
  /** Gives back what it holds. Called once, between steps. */
  dispose(): void
}

/** Some tokens of one sequence: a prompt chunk, or the one token of a decode. */
export interface BatchItem {
  readonly slot: SlotId
  /** Where `tokens[0]` goes: the number of tokens already in the slot. */
  readonly position: number
  /**
   * How many tokens before it were taken out of the slot by {@link Backend.shift}: for the sampler, which
   * knows all of them, positions count on. Default: 0.
   */
  readonly discarded?: number
  readonly tokens: readonly TokenId[]
  /** The parts of an image's vectors that stand in place of some of its tokens. Needs {@link Backend.media}. */
  readonly media?: readonly MediaSpan[]
  /**
   * The positions (not indexes) whose next token is wanted, rising, each within this item. None:
   * prefill only; several: speculation, echo.
   */
  readonly outputs: readonly number[]
  /**
   * How many of the last tokens are drafts: guesses of what is drawn. Outputs are wanted at the token
   * before the drafts and at each draft, and are drawn in their order up to the first that is not the
   * item's next token: that one is the last, and what is behind it is never drawn. The slot holds all
   * tokens of the item afterwards; the engine takes off what was not drawn. Needs the capability
   * `drafts`. Default: 0.
   */
  readonly drafts?: number
  /** Needed when there are outputs. */
  readonly sampler?: Sampler
  /**
   * Asks for log probabilities with each output: its own, and of this many likeliest tokens (0
   * to 20). Needs the capability `logprobs`. Default: none are made.
   */
  readonly logprobs?: number
  /**
   * Asks for the same of the draw itself, in place of `logprobs`: after temperature, penalties, bias, cuts
   * and constraints; tokens that could not be drawn are not listed. Needs the capability `drawLogprobs`.
   */
  readonly drawLogprobs?: number
  /**
   * The adapters that it is computed with, the same for all items of a step. What a slot holds was
   * computed with them, too. Needs {@link Backend.adapters}. Default: none.
   */
  readonly adapters?: readonly AppliedAdapter[]
  /** Asks how likely tokens are that are known already. Needs the capability `promptLogprobs`. */
  readonly scores?: ScoredTokens
}

/** Known tokens of a sequence whose log probabilities are wanted. */
export interface ScoredTokens {
  /** A position within the item: the first of the tokens belongs after it, the others follow. */
  readonly position: number
  /** One for each position from there on, at most to the item's end. */
  readonly tokens: readonly TokenId[]
  /** As many of the likeliest tokens are listed with each, 0 to 20. */
  readonly top: number
}

/** A token with the natural logarithm of its probability. */
export interface TokenLogprob {
  readonly token: TokenId
  readonly logprob: number
}

/**
 * How likely tokens are by the model's own distribution: before temperature, penalties, bias, cuts
 * and constraints. After them with {@link BatchItem.drawLogprobs}.
 */
export interface OutputLogprobs {
  /** Of the token that was drawn. */
  readonly logprob: number
  /** As many of the likeliest tokens as were asked for, the likeliest first. */
  readonly top: readonly TokenLogprob[]
}

/** What came out for one wanted position. */
export interface StepOutput {
  /** The position that was asked for; the token drawn belongs at `position + 1`. */
  readonly position: number
  readonly token: TokenId
  /** When they were asked for. */
  readonly logprobs?: OutputLogprobs
}

/** The result of one step. */
export interface StepResult {
  /**
   * Per item of the batch, in its order, one entry per wanted position; with drafts, one per position
   * that was drawn.
   */
  readonly outputs: readonly (readonly StepOutput[])[]
  /**
   * Per item of the batch, in its order, one entry per scored token; may be left out where no item has
   * {@link BatchItem.scores}.
   */
  readonly scores?: readonly (readonly OutputLogprobs[])[]
  /** Why items had no token drawn, by their index in the batch: their slots may hold anything. Default: all had. */
  readonly errors?: ReadonlyMap<number, CllmError>
  /** Milliseconds in the forward pass. */
  readonly decodeMs: number
  /** Milliseconds in sampling. */
  readonly sampleMs: number
  /** Whether {@link Backend.interrupt} ended it: no slot has changed, and there are no outputs. Default: false. */
  readonly isInterrupted?: boolean
}

/**
 * Runs a model: one forward pass over a batch of sequences at a time. Its calls are made by one
 * engine, never two at once, but for `embed`, beside which all but a `step` may be called. `truncate`, `copyPrefix` and `release` are only called between steps.
 */
export interface Backend extends Learner {
  readonly specificationVersion: 1
  readonly model: ModelInfo
  readonly limits: BackendLimits
  readonly capabilities: BackendCapabilities
  readonly tokenizer: Tokenizer
  /** How many more tokens the slots can hold together. Needed for `limits.kvTokens`. */
  readonly freeTokens?: number | undefined

  /**
   * A sampler for the sequence whose tokens so far (prompt and generated) are `tokens`. Draws are a
   * function of (seed, position) alone, so that a sequence that was preempted, moved or continued
   * elsewhere draws the same tokens.
   * @param promptTokens - how many of the tokens are the prompt; the tokens after it were sampled, and are
   * what a constraint has seen so far. Default: all of them.
   * @param processors - of `params.samplers`, in their order, to be applied to the logits of each draw
   *   before anything else. Needs the capability `samplers`. Default: none.
   */
  createSampler(
    params: SamplingParams,
    tokens: readonly TokenId[],
    promptTokens?: number,
    processors?: readonly LogitProcessor[],
  ): Sampler

  /**
   * Makes sure that samplers with this constraint can be had. Synchronous and quick. Left out by a backend
   * without constraints.
   * @throws CllmError `invalid_constraint` saying what cannot be honoured, and where
   */
  checkConstraint?(constraint: OutputConstraint): void

  /**
   * One forward pass over the whole batch, then the sampling. Never re-entrant. When it rejects, no slot
   * has changed.
   */
  step(batch: readonly BatchItem[]): Promise<StepResult>

  /**
   * Asks the step under way to end as soon as it can, since something more urgent came. It resolves with
   * `isInterrupted`, or as ever where it was almost done or is better not left. Returns at once; does nothing
   * without a step under way. Leave it out where no step can be left.
   */
  interrupt?(): void

  /**
   * The embeddings of one or several texts' tokens, in their order: pooled as the model requires, of
   * length 1. Where the model's detail `pooling` is `none`, the vectors of a text's tokens one after the
   * other. They are computed with these adapters. Several are within `limits.embeddingInputs` and `limits.embeddingTokens`. Uses no slot.
   * Never called during a step or another `embed`; slots may be copied, cut, saved and restored while it
   * computes. A backend with one context for both puts such calls in order itself. Left out by one without embeddings.
   */
  embed?(
    inputs: readonly (readonly TokenId[])[],
    adapters?: readonly AppliedAdapter[],
  ): Promise<readonly (readonly number[])[]>

  /**
   * Drops what is in the slot from `length` on and returns the length really kept: a sliding-window
   * or recurrent model may have to drop more.
   */
  truncate(slot: SlotId, length: number): number

  /** Makes the first `length` tokens of `from` the content of `to` and returns the length really there. */
  copyPrefix(from: SlotId, to: SlotId, length: number): Promise<number>

  /**
   * Takes `discard` tokens out of the slot, after the first `keep`, and moves those behind them forward:
   * it holds as many less. Synchronous, between steps. Left out by a backend that cannot.
   */
  shift?(slot: SlotId, keep: number, discard: number): void

  /** Empties the slot. */
  release(slot: SlotId): void

  /** Saves and restores what slots hold; left out by a backend that cannot. */
  readonly states?: SlotStates

  /** Encodes images; left out by a backend whose model sees none. */
  readonly media?: MediaEncoder

  /** Loads adapters; left out by a backend that cannot. */
  readonly adapters?: BackendAdapters

  /**
   * Says which free slot it likes for a new sequence. `free` is never empty and ordered by what is
   * cheapest to lose: empty slots first, then least recently used.
   */
  preferSlot(free: readonly SlotId[], used: readonly SlotId[]): SlotId

  /**
   * Says, where some sets of slots make steps longer than others, how many milliseconds each step
   * loses with sequences in these slots (in no order, each once), against as many in the best ones:
   * by its own measure, 0 where nothing is lost. The engine weighs it when it gives out slots, and may
   * move the sequence in the highest one to a better place, with `copyPrefix` and `release`. Leave it
   * out where any slots are as good.
   */
  layoutMs?(used: readonly SlotId[]): number

  /** Gives back the model and its memory. */
  dispose(): Promise<void>
}
