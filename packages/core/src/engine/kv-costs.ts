import { LinearFit } from '../learn/linear-fit.js'
import type { StepPart } from './run-step.js'

/** Steps that a copy must have been passed over for until its cost counts as half of what it was. */
const copiesUntilHalf = 32
/** How much one admission counts for the share of tokens that are found. */
const weight = 1 / 16

/**
 * Learns from the steps what tokens and copies cost, in milliseconds:
 *
 *     step = base + decode · sequences + prefill · tokens + copy · copies before it
 *
 * A copy moves a slot's whole memory, so that its cost goes with the slot's size and not with the
 * prefix; where it is only done in the next step, as in llama.cpp, the step shows it. The start is a
 * small model on two CPU cores (a token 3 ms, a copy 40 ms), scaled by the first step.
 */
export class KvCosts {
  readonly #fit = new LinearFit({ prior: [15, 8, 3, 40], memory: 0.9, outlier: 2 })
  #copies = 0
  #copyMs = 0
  #trust = 1
  #reuse = 0.5

  /** What computing so many tokens adds to steps. */
  prefillMs(tokens: number): number {
    return tokens * (this.#fit.coefficients[2] ?? 0)
  }

  /** What a step takes in which so many sequences decode. */
  stepMs(sequences: number): number {
    const [base = 0, decode = 0] = this.#fit.coefficients
    return base + sequences * decode
  }

  /** What copying a slot adds. */
  get copyMs(): number {
    return this.#trust * (this.#fit.coefficients[3] ?? 0)
  }

  /** How much of what a slot keeps is likely to be wanted again, 0 to 1. */
  get reuseShare(): number {
    return this.#reuse
  }

  /** A request was admitted that found this share of its tokens. */
  admitted(share: number): void {
    this.#reuse += weight * (share - this.#reuse)
  }

  /** A copy was made, of which the call took so long. */
  copied(ms: number): void {
    this.#copies++
    this.#copyMs += ms
    this.#trust = 1
  }

  /** Computing seemed cheaper than a copy. What is not tried again would be believed for ever. */
  passedOver(): void {
    this.#trust *= 0.5 ** (1 / copiesUntilHalf)
  }

  /** Learns from a step, unless it went wrong and so took no time that would teach something. */
  stepped(parts: readonly StepPart[], durationMs: number | undefined): void {
    if (durationMs !== undefined) {
      let decodes = 0
      let tokens = 0
      for (const part of parts) {
        if (part.isDecode) decodes++
        else tokens += part.tokens
      }
      this.#fit.observe([1, decodes, tokens, this.#copies], durationMs + this.#copyMs)
    }
    this.#copies = 0
    this.#copyMs = 0
  }
}
