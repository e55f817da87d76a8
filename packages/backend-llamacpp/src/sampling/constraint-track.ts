import { CllmError, type TokenId } from '@cllm/core'
import type { ConstraintGrammar } from '../grammar/constraint-grammars.js'
import type { GrammarReading } from '../grammar/budget/grammar-reading.js'
import { type GrammarStart, TriggerSearch } from '../grammar/trigger-search.js'
import type { NativeGrammar, NativeGrammarState } from '../native/native.js'
import type { Vocabulary } from '../text/vocabulary.js'

/** The bias of what ends generation where it should not: still more than what a grammar forbids. */
const never = -1e9
/** The least bias of other tokens. */
const least = -1e6

/** What a draw is held to. */
export interface DrawConfig {
  tokenBiasKeys?: Uint32Array
  tokenBiasValues?: Float32Array
  /** Where the grammar is. */
  grammarEvaluationState?: NativeGrammarState
}

/** Biases of tokens. */
interface Biases {
  readonly keys: Uint32Array
  readonly values: Float32Array
}

/**
 * Bytes that may not follow these first bytes of a character: with them it would be one that has a
 * shorter spelling, half of a surrogate pair or beyond Unicode. llama.cpp's grammars let them pass.
 */
const forbiddenAfter = new Map<number, readonly [first: number, last: number]>([
  [0xe0, [0x80, 0x9f]],
  [0xed, [0xa0, 0xbf]],
  [0xf0, [0x80, 0x8f]],
  [0xf4, [0x90, 0xbf]],
])

/**
 * Keeps the state of a sequence's grammar where its output is. The native sampler moves the state on
 * with each draw; where the output is not what was drawn last (a step was tried again, the sequence
 * comes from elsewhere), the state is made anew from the tokens.
 */
export class ConstraintTrack {
  readonly #grammar: ConstraintGrammar
  readonly #vocabulary: Vocabulary
  readonly #promptTokens: number
  /** The output up to where the state is, or is to be. */
  readonly #output: TokenId[]
  #state: NativeGrammarState | undefined
  /** What {@link #state} costs; there when that is. */
  #reading: GrammarReading | undefined
  readonly #search: TriggerSearch | undefined
  /** Where the grammar begins to hold, as far as that is known. */
  #start: GrammarStart | undefined
  /** What begins as its trigger does, and then is something else: all of it is free. */
  #isFree = false
  #biases: Biases = { keys: new Uint32Array(0), values: new Float32Array(0) }
  /** Those while the grammar does not hold yet. */
  #freeBiases: Pick<DrawConfig, 'tokenBiasKeys' | 'tokenBiasValues'> = {}

  constructor(
    grammar: ConstraintGrammar,
    vocabulary: Vocabulary,
    tokens: readonly TokenId[],
    promptTokens: number,
  ) {
    this.#grammar = grammar
    this.#vocabulary = vocabulary
    this.#promptTokens = promptTokens
    this.#output = tokens.slice(promptTokens)
    if (grammar.trigger === undefined) this.#start = { token: 0, skipped: 0 }
    else this.#search = new TriggerSearch(vocabulary, grammar.trigger)
  }

  /**
   * Takes out what a grammar would count as text though clients never see it: control tokens, and
   * bytes that UTF-8 does not have. No bias of a request may forbid all that the grammar allows.
   */
  limit({ tokenBiasKeys, tokenBiasValues }: DrawConfig): void {
    if (tokenBiasKeys !== undefined && tokenBiasValues !== undefined) {
      this.#freeBiases = { tokenBiasKeys, tokenBiasValues }
    }
    const { controlTokens, endOfGeneration, byInnerByte } = this.#vocabulary
    const biases = new Map<TokenId, number>()
    for (const [index, token] of tokenBiasKeys?.entries() ?? []) {
      const bias = tokenBiasValues?.[index] ?? 0
      biases.set(
        token,
        bias === -Infinity && endOfGeneration.has(token) ? never : Math.max(least, bias),
      )
    }
    for (const [byte, tokens] of byInnerByte) {
      if (byte >= 0xc0) for (const token of tokens) biases.set(token, -Infinity)
    }
    for (const { id } of controlTokens) {
      if (!endOfGeneration.has(id)) biases.set(id, -Infinity)
    }
    this.#biases = toBiases(biases)
  }

  /** Makes the configuration ready for the draw after `position`. */
  prepare(config: DrawConfig, position: number, start: number, tokens: readonly TokenId[]): void {
    this.#follow(position, start, tokens)
    if (this.#reading?.isStale === true) this.#drop()
    this.#state ??= this.#begin()
    if (this.#state === undefined) {
      delete config.grammarEvaluationState
      delete config.tokenBiasKeys
      delete config.tokenBiasValues
      Object.assign(config, this.#freeBiases)
      return
    }
    this.#reading?.check()
    config.grammarEvaluationState = this.#state
    const { keys, values } = this.#biasesAfter(this.#output.at(-1))
    if (keys.length === 0) return
    config.tokenBiasKeys = keys
    config.tokenBiasValues = values
  }

  /** The native sampler has moved the state on over this token. */
  onToken(token: TokenId): void {
    if (this.#vocabulary.endOfGeneration.has(token)) return
    this.#output.push(token)
    if (this.#state !== undefined) this.#read(this.#reading, token)
  }

  /**
   * Moves the state on over a token that was drawn without a native sampler.
   * @throws CllmError `backend_failed` when the constraint does not allow it
   */
  accept(token: TokenId): void {
    if (this.#vocabulary.endOfGeneration.has(token)) return
    this.#output.push(token)
    if (this.#state !== undefined) this.#accept(this.#state, token)
  }

  /** Gives the memory of its state back; it is not used afterwards. */
  dispose(): void {
    this.#drop()
  }

  #drop(): void {
    this.#state?.free?.()
    this.#state = undefined
  }

  #follow(position: number, start: number, tokens: readonly TokenId[]): void {
    const output = this.#output
    for (let at = Math.max(start, this.#promptTokens); at <= position; at++) {
      const index = at - this.#promptTokens
      const token = tokens[at - start] ?? -1
      if (output[index] === token) continue
      this.#cut(index)
      output.push(token)
      if (this.#state !== undefined) this.#accept(this.#state, token)
    }
    this.#cut(Math.max(0, position + 1 - this.#promptTokens))
  }

  #cut(length: number): void {
    if (length >= this.#output.length) return
    this.#output.length = length
    this.#drop()
    if (this.#search === undefined) return
    this.#search.reset()
    this.#start = undefined
    this.#isFree = false
  }

  /** The state where the output is; undefined while the grammar does not hold. */
  #begin(): NativeGrammarState | undefined {
    if (this.#isFree) return undefined
    this.#start ??= this.#search?.find(this.#output)
    if (this.#start === undefined) return undefined
    const { token, skipped } = this.#start
    const grammar = this.#grammar.after(skipped)
    const { native } = grammar
    const state = native.begin()
    const reading = grammar.read()
    this.#reading = reading
    try {
      for (const written of this.#output.slice(token)) {
        this.#read(reading, written)
        if (this.#begins(native, state, written)) continue
        state.free?.()
        this.#isFree = true
        return undefined
      }
    } catch (error) {
      state.free?.()
      throw error
    }
    return state
  }

  /** Moves a new state on; false: what began as its trigger does is something else. */
  #begins(native: NativeGrammar, state: NativeGrammarState, token: TokenId): boolean {
    try {
      native.accept(state, token)
      return true
    } catch (cause) {
      if (this.#search === undefined) throw notKept(token, cause)
      return false
    }
  }

  #read(reading: GrammarReading | undefined, token: TokenId): void {
    reading?.accept(token, this.#vocabulary.bytes(token))
  }

  #accept(state: NativeGrammarState, token: TokenId): void {
    this.#read(this.#reading, token)
    try {
      this.#current.accept(state, token)
    } catch (cause) {
      throw notKept(token, cause)
    }
  }

  get #current(): NativeGrammar {
    return this.#grammar.after(this.#start?.skipped ?? 0).native
  }

  #biasesAfter(last: TokenId | undefined): Biases {
    const byte = last === undefined ? undefined : this.#vocabulary.bytes(last).at(-1)
    const forbidden = byte === undefined ? undefined : forbiddenAfter.get(byte)
    if (forbidden === undefined) return this.#biases
    const { keys, values } = this.#biases
    const biases = new Map(Array.from(keys, (key, index) => [key, values[index] ?? 0]))
    for (let next = forbidden[0]; next <= forbidden[1]; next++) {
      for (const token of this.#vocabulary.byInnerByte.get(next) ?? []) biases.set(token, -Infinity)
    }
    return toBiases(biases)
  }
}

function notKept(token: TokenId, cause: unknown): CllmError {
  const message = `token ${token} of the output does not keep to the constraint`
  return new CllmError('backend_failed', message, { cause })
}

function toBiases(biases: ReadonlyMap<TokenId, number>): Biases {
  return { keys: Uint32Array.from(biases.keys()), values: Float32Array.from(biases.values()) }
}
