import { CllmError, type Sampler, type TokenId } from '@cllm/core'
import type { ConstraintGrammar } from '../grammar/constraint-grammars.js'
import { JsonLayout } from '../grammar/match/forced-text.js'
import type { GrammarState, TokenGrammar } from '../grammar/match/token-grammar.js'
import { refused } from '../grammar/refuse.js'
import { type GrammarStart, TriggerSearch } from '../grammar/trigger-search.js'
import type { Vocabulary } from '../text/vocabulary.js'

/** The bias of end-of-generation tokens that a request forbids: still above −∞, with which a grammar forbids tokens. */
const never = -1e9
/** The lowest bias of other tokens. */
const least = -1e6

/**
 * Keeps the state of a sequence's grammar up to date with its output. If the output differs from what was drawn last
 * (after a retried step, or in a sequence from another engine), rebuilds the state from the tokens.
 */
export class ConstraintTrack {
  /** The output up to the position of the state. */
  readonly #output: TokenId[]
  readonly #grammar: TokenGrammar
  #state: GrammarState | undefined
  readonly #search: TriggerSearch | undefined
  /** Where the grammar begins to apply; undefined: not found yet. */
  #start: GrammarStart | undefined
  /** Whether the text only looked like the trigger at its beginning: then the grammar does not apply at all. */
  #isFree = false
  /** The layout (whitespace) of the output, as far as it was read. */
  #layout = new JsonLayout()
  #laidOut = 0

  constructor(
    { grammar, trigger }: ConstraintGrammar,
    private readonly vocabulary: Vocabulary,
    tokens: readonly TokenId[],
    private readonly promptTokens: number,
  ) {
    this.#output = tokens.slice(promptTokens)
    this.#grammar = grammar
    if (trigger === undefined) this.#start = { token: 0, skipped: 0 }
    else this.#search = new TriggerSearch(vocabulary, trigger)
  }

  /** Whether the grammar only begins to apply at a trigger within the output. */
  get mayBegin(): boolean {
    return this.#search !== undefined
  }

  /**
   * Prepares the draw after `position`.
   * @returns whether the grammar applies there
   */
  prepare(position: number, start: number, tokens: readonly TokenId[]): boolean {
    const output = this.#output
    for (let at = Math.max(start, this.promptTokens); at <= position; at++) {
      const index = at - this.promptTokens
      const token = tokens[at - start] ?? -1
      if (output[index] === token) continue
      this.#cut(index)
      if (!this.take(token)) throw notKept(token)
    }
    this.#cut(Math.max(0, position + 1 - this.promptTokens))
    this.#state ??= this.#begin()
    return this.#state !== undefined
  }

  /** Adds a token to the output; returns false, and adds nothing, if the grammar does not allow the token. */
  take(token: TokenId): boolean {
    if (this.#state !== undefined) {
      const next = this.#grammar.after(this.#state, token)
      if (next === undefined) return false
      this.#state = next
    }
    this.#output.push(token)
    return true
  }

  /** The tokens that may come next, one bit per token. Only call this while the grammar applies. */
  mask(): Uint32Array {
    return this.#grammar.mask(this.#state!)
  }

  /** The tokens behind `tokens` that the grammar leaves no choice about: {@link Sampler.forced}. */
  readonly forced: NonNullable<Sampler['forced']> = (tokens, most) => {
    const last = tokens.length - 1
    const start = Math.min(last, this.promptTokens + this.#output.length)
    if (!this.prepare(last, start, tokens.slice(start))) return { tokens: [] }
    this.#laidOut = Math.max(this.#laidOut, this.#start!.token)
    for (; this.#laidOut < this.#output.length; this.#laidOut++) {
      for (const byte of this.vocabulary.bytes(this.#output[this.#laidOut]!)) {
        this.#layout.read(String.fromCharCode(byte))
      }
    }
    return this.#grammar.forced(this.#state!, this.#layout, most)
  }

  #cut(length: number): void {
    if (length >= this.#output.length) return
    this.#output.length = length
    this.#state = undefined
    this.#layout = new JsonLayout()
    this.#laidOut = 0
    if (this.#search === undefined) return
    this.#search.reset()
    this.#start = undefined
    this.#isFree = false
  }

  /** The state at the end of the output, built from its tokens; undefined while the grammar does not apply. */
  #begin(): GrammarState | undefined {
    if (this.#isFree) return undefined
    this.#start ??= this.#search?.find(this.#output)
    if (this.#start === undefined) return undefined
    const { token: first, skipped } = this.#start
    let state = this.#grammar.begin()
    for (const [nth, token] of this.#output.slice(first).entries()) {
      const next = this.#grammar.after(state, token, nth === 0 ? skipped : 0)
      if (next === undefined) {
        if (this.#search === undefined) throw notKept(token)
        this.#isFree = true
        return undefined
      }
      state = next
    }
    return state
  }
}

/** Biases of tokens, as two lists of the same length. */
export interface Biases {
  readonly tokens: Uint32Array
  readonly values: Float32Array
}

/** Converts a map of biases to two lists. */
export function listed(biases: ReadonlyMap<TokenId, number>): Biases {
  return { tokens: Uint32Array.from(biases.keys()), values: Float32Array.from(biases.values()) }
}

/** A request's biases while a grammar applies: bounded, so that tokens allowed by the grammar can always be drawn. */
export function withinGrammar(
  biases: ReadonlyMap<TokenId, number>,
  { endOfGeneration }: Pick<Vocabulary, 'endOfGeneration'>,
): Map<TokenId, number> {
  const bounded = Array.from(biases, ([token, bias]) => {
    const isNever = bias === -Infinity && endOfGeneration.has(token)
    return [token, isNever ? never : Math.max(least, bias)] as const
  })
  return new Map(bounded)
}

/** The error if no token that the grammar allows can be drawn. */
export function noneAllowed(): CllmError {
  const reason = 'none of the tokens that this model may write can come next'
  return refused('The constraint cannot be kept to', reason)
}

function notKept(token: TokenId): CllmError {
  const message = `token ${token} of the output does not keep to the constraint`
  return new CllmError('backend_failed', message)
}
