import type { StepTotals } from './counters.js'

/** What passes of one kind took. */
interface Passes {
  ms: number
  tokens: number
}

/** The time of the forward passes that went into prompts. */
export class PrefillTime {
  #ms = 0
  /** Passes that did one of the two alone: from them it is known what a token of it takes. */
  readonly #prefill: Passes = { ms: 0, tokens: 0 }
  readonly #decode: Passes = { ms: 0, tokens: 0 }

  get ms(): number {
    return this.#ms
  }

  count({ decodeMs, prefillTokens, decodeSequences, draftTokens }: StepTotals): void {
    const decodeTokens = decodeSequences + draftTokens
    if (prefillTokens === 0) add(this.#decode, decodeMs, decodeTokens)
    else if (decodeTokens === 0) {
      add(this.#prefill, decodeMs, prefillTokens)
      this.#ms += decodeMs
    } else this.#ms += decodeMs * this.#shareOf(prefillTokens, decodeTokens)
  }

  /** The prompts' share of a pass that did both: by what each takes alone, or else by tokens. */
  #shareOf(prefillTokens: number, decodeTokens: number): number {
    const prefillMs = prefillTokens * (this.#prefill.ms / this.#prefill.tokens)
    const decodeMs = decodeTokens * (this.#decode.ms / this.#decode.tokens)
    const share = prefillMs / (prefillMs + decodeMs)
    return Number.isFinite(share) ? share : prefillTokens / (prefillTokens + decodeTokens)
  }
}

function add(passes: Passes, ms: number, tokens: number): void {
  passes.ms += ms
  passes.tokens += tokens
}
