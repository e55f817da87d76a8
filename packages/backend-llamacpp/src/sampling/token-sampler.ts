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
  /** Of its constraint. */
  declare forced?: NonNullable<Sampler['forced']>
  /**
   * Prepares the draw of the token after `position`, while the threads compute.
   * @param tokens - the tokens of the batch item, starting at position `start`
   */
  abstract prepare(position: number, start: number, tokens: readonly TokenId[]): void
  /**
   * Draws from the logits of the batch's token with this index; negative when there are none.
   * @param likeliest - so many of the likeliest tokens of the draw are kept for {@link drawn}
   */
  abstract draw(index: number, likeliest?: number): TokenId | Promise<TokenId>
  /** How likely tokens were in the last draw at this index: what it was asked to keep. */
  drawn?(index: number): OutputLogprobs | undefined
  /** The model's own distribution at that index: of a token, and of the `count` likeliest. */
  abstract logprobs(
    index: number,
    token: TokenId,
    count: number,
  ): OutputLogprobs | Promise<OutputLogprobs>
  abstract dispose(): void
}

/** What a sampler has beside its parameters. */
export interface SamplerParts {
  readonly constraint?: ConstraintTrack
  /** Of plug-ins, in their order; default: none. */
  readonly processors?: readonly LogitProcessor[]
}

/** A draw that a sampler has been prepared for. */
export interface PreparedDraw {
  readonly sampler: TokenSampler
  /** Of the token in the batch whose logits it draws from. */
  readonly index: number
}

/** Makes the samplers of one context. */
export interface SamplerFactory {
  /** Whether its samplers see all logits, as the capability `samplers` says. */
  readonly seesLogits: boolean
  create(params: SamplingParams, tokens: readonly TokenId[], parts?: SamplerParts): TokenSampler
  /** Makes draws of a pass together, for the samplers to give out, where this is quicker than one by one. */
  readonly drawAhead?: ((draws: readonly PreparedDraw[]) => void) | undefined
  /** Threads that make them; `announce` says that draws come soon: undefined where the last gained nothing by it. */
  readonly threads?: { readonly announce: (() => void) | undefined } | undefined
  dispose(): void | Promise<void>
}

/**
 * All tokens of a sequence up to `position`, in the list of those that its sampler knows.
 * @param tokens - the tokens of the batch item, starting at position `start`
 * @throws CllmError `backend_failed` when tokens before `start` are not known
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
