import type { NativeGrammar, NativeGrammarState } from '../native.js'
import { addressOf, encodeStruct, type NativeFunctions } from './bind-functions.js'
import type { FfiModel } from './ffi-model.js'
import type { Pointer } from './structs.js'

/** What a grammar compares with its rules: it must not be asked once the model is freed. */
type GrammarVocabulary = Pick<FfiModel, 'vocabulary' | 'check' | 'checkOpen'>

/** A candidate is an id, a logit and a probability of 4 bytes each. */
const candidateBytes = 12

/** Frees native grammars whose states are garbage and were not freed before. */
const finalizers = new WeakMap<NativeFunctions, FinalizationRegistry<Pointer>>()

/**
 * Parses a grammar.
 * @throws Error when it is no GBNF, has no such root rule, or one of its rules begins with itself
 */
export function parseFfiGrammar(
  functions: NativeFunctions,
  model: GrammarVocabulary,
  gbnf: string,
  root: string,
): NativeGrammar {
  // of an empty one llama.cpp makes a sampler that allows everything
  const first =
    gbnf === '' ? null : functions.llama_sampler_init_grammar(model.vocabulary, gbnf, root)
  if (first === null) throw new Error('Failed to parse grammar')
  const start = new FfiGrammarState(functions, model, first)
  return {
    begin: () => start.clone(),
    free: () => start.free(),
    accept: (state, token) => (state as FfiGrammarState).accept(token),
  }
}

/** A grammar sampler of llama.cpp, which holds the place of a text in its grammar. */
class FfiGrammarState implements NativeGrammarState {
  readonly #functions: NativeFunctions
  readonly #model: GrammarVocabulary
  #sampler: Pointer | undefined
  readonly #single: Candidates

  constructor(
    functions: NativeFunctions,
    model: GrammarVocabulary,
    sampler: Pointer,
    single?: Candidates,
  ) {
    this.#functions = functions
    this.#model = model
    this.#sampler = sampler
    this.#single = single ?? new Candidates(1)
    let finalizer = finalizers.get(functions)
    if (finalizer === undefined) {
      finalizer = new FinalizationRegistry((sampler) => functions.llama_sampler_free(sampler))
      finalizers.set(functions, finalizer)
    }
    finalizer.register(this, sampler, this)
  }

  clone(): FfiGrammarState {
    const copy = this.#functions.llama_sampler_clone(this.#own())
    return new FfiGrammarState(this.#functions, this.#model, copy, this.#single)
  }

  /** llama.cpp throws through koffi, which ends the process, so the token is tried before. */
  accept(token: number): void {
    if (!this.allows(token)) throw new Error(`the grammar does not accept token ${token}`)
    this.#functions.llama_sampler_accept(this.#own(), token)
  }

  free(): void {
    if (this.#sampler === undefined) return
    finalizers.get(this.#functions)?.unregister(this)
    this.#functions.llama_sampler_free(this.#sampler)
    this.#sampler = undefined
  }

  allows(token: number): boolean {
    this.#model.check(token)
    const single = this.#single
    single.ids[0] = token
    single.logits[1] = 0
    this.#apply(single, 1)
    return single.logits[1] === 0
  }

  forbid(ids: Int32Array, logits: Float32Array, size: number): void {
    const candidates = Candidates.of(size)
    for (let at = 0, to = 0; at < size; at++, to += 3) {
      const token = ids[at]!
      this.#model.check(token)
      candidates.ids[to] = token
      candidates.logits[to + 1] = 0
    }
    this.#apply(candidates, size)
    for (let at = 0, from = 1; at < size; at++, from += 3) {
      if (candidates.logits[from] !== 0) logits[at] = -Infinity
    }
  }

  #apply(candidates: Candidates, size: number): void {
    this.#functions.llama_sampler_apply(this.#own(), candidates.header(size))
  }

  #own(): Pointer {
    this.#model.checkOpen()
    if (this.#sampler === undefined) throw new Error('the state of the grammar was freed')
    return this.#sampler
  }
}

/** A `llama_token_data_array` over memory of JavaScript's, so that nothing is copied. */
class Candidates {
  static #shared: Candidates | undefined
  readonly capacity: number
  /** Every third number is an id. */
  readonly ids: Int32Array
  /** Every third number from the second on is a logit. */
  readonly logits: Float32Array
  #header: Uint8Array | undefined
  #size = -1

  constructor(capacity: number) {
    const memory = new ArrayBuffer(capacity * candidateBytes)
    this.capacity = capacity
    this.ids = new Int32Array(memory)
    this.logits = new Float32Array(memory)
  }

  /** Room for `size` candidates, shared by all states: it is used within one call. */
  static of(size: number): Candidates {
    if (Candidates.#shared === undefined || Candidates.#shared.capacity < size) {
      Candidates.#shared = new Candidates(size)
    }
    return Candidates.#shared
  }

  header(size: number): Uint8Array {
    if (this.#header !== undefined && this.#size === size) return this.#header
    this.#size = size
    this.#header = encodeStruct('llama_token_data_array', {
      data: addressOf(this.ids),
      size,
      selected: -1,
      sorted: false,
    })
    return this.#header
  }
}
