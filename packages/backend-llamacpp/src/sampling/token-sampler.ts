import {
  CllmError,
  type LogitProcessor,
  type OutputLogprobs,
  type Sampler,
  type SamplingParams,
  type TokenId,
} from '@cllm/core'
import type { ConstraintTrack } from './constraint-track.js'

/** Draws the tokens of one sequence from the logits of the context's last forward pass. */
export abstract class TokenSampler implements Sampler {
  /** The tokens that the constraint leaves no choice about. */
  declare forced?: NonNullable<Sampler['forced']>
  /**
   * Prepares the draw of the token after `position`, while the threads compute.
   * @param tokens - the tokens of the batch item, starting at position `start`
   */
  abstract prepare(position: number, start: number, tokens: readonly TokenId[]): void
  /**
   * Draws from the logits of the batch's token with this index; negative if there are no logits.
   * @param likeliest - the number of the draw's likeliest tokens to keep for {@link drawn}
   */
  abstract draw(index: number, likeliest?: number): TokenId | Promise<TokenId>
  /** The log probabilities that the last draw at this index was asked to keep. */
  drawn?(index: number): OutputLogprobs | undefined
  /** The log probabilities in the model's own distribution at this index: of a token, and of the `count` likeliest. */
  abstract logprobs(
    index: number,
    token: TokenId,
    count: number,
  ): OutputLogprobs | Promise<OutputLogprobs>
  abstract dispose(): void
}

/** The parts of a sampler besides its parameters. */
export interface SamplerParts {
  readonly constraint?: ConstraintTrack
  /** The logit processors of plug-ins, in order; default: none. */
  readonly processors?: readonly LogitProcessor[]
}

/** A draw that a sampler has been prepared for. */
export interface PreparedDraw {
  readonly sampler: TokenSampler
  /** The index in the batch of the token whose logits it draws from. */
  readonly index: number
}

/** Makes the samplers of one context. */
export interface SamplerFactory {
  /** Whether its samplers see all logits; reported as the capability `samplers`. */
  readonly seesLogits: boolean
  create(params: SamplingParams, tokens: readonly TokenId[], parts?: SamplerParts): TokenSampler
  /** Makes the draws of a pass in several threads if that is faster; the samplers then return them. */
  readonly drawAhead?: ((draws: readonly PreparedDraw[]) => void) | undefined
  /** The threads for that. `announce` wakes them before draws come; undefined if the last draws did not use them. */
  readonly threads?: { readonly announce: (() => void) | undefined } | undefined
  dispose(): void | Promise<void>
}

/**
 * All tokens of a sequence up to `position`, which replace the content of the list `known`.
 * @param known - the tokens that the sampler knows
 * @param tokens - the tokens of the batch item, starting at position `start`
 * @throws CllmError `backend_failed` if tokens before `start` are not known
 */
export function knownTokens(
  known: TokenId[],
  position: number,
  start: number,
  tokens: readonly TokenId[],
): readonly TokenId[] {
  if (start > known.length) {
    const message = `the sampler knows ${known.length} tokens of its sequence, and is used at ${start}`
    throw new CllmError('backend_failed', message)
  }
  known.length = start
  for (let index = 0; index <= position - start; index++) known.push(tokens[index] ?? 0)
  return known
}
