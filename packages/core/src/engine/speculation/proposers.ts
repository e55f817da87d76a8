import { z } from 'zod'
import type { TokenId } from '../../contracts/model/tokenizer.js'
import type { Drafter, Proposal, Proposer } from '../../contracts/model/drawing.js'
import { defineProposer, type ProposerDefinition } from '../../contracts/plugin.js'
import type { Backend } from '../../contracts/model/backend.js'
import { CllmError } from '../../errors/cllm-error.js'
import type { GivenOptions } from '../../plugin/checks.js'
import { Definitions } from '../../plugin/definitions.js'
import { token } from '../../tokens.js'

const smallest = 64

/**
 * Remembers where each n-gram of a growing token list was seen last. Adding a token takes constant time. N-grams with the
 * same hash displace each other, so the tokens at a found place must be compared.
 */
class NgramIndex {
  /** By hash: the index behind the n-gram, plus one; 0: none. */
  #ends = new Int32Array(smallest)
  #size = 0

  constructor(readonly length: number) {}

  /** The index behind the latest added n-gram that is probably equal to the one that ends before `end`. */
  find(tokens: readonly TokenId[], end: number): number | undefined {
    if (end < this.length) return undefined
    const found = this.#ends[this.#place(tokens, end)] ?? 0
    return found === 0 ? undefined : found - 1
  }

  /** Adds the n-gram that ends before `end`; ends must rise by one. */
  add(tokens: readonly TokenId[], end: number): void {
    if (end < this.length) return
    if (++this.#size * 2 > this.#ends.length) this.#grow(tokens, end)
    this.#ends[this.#place(tokens, end)] = end + 1
  }

  #grow(tokens: readonly TokenId[], end: number): void {
    this.#ends = new Int32Array(2 * this.#ends.length)
    for (let at = this.length; at < end; at++) this.#ends[this.#place(tokens, at)] = at + 1
  }

  #place(tokens: readonly TokenId[], end: number): number {
    let hash = this.length
    for (let at = end - this.length; at < end; at++) {
      hash = Math.imul(hash ^ (tokens[at] ?? 0), 0x9e3779b1)
      hash ^= hash >>> 15
    }
    return hash & (this.#ends.length - 1)
  }
}

/** The most tokens before a match that are compared. */
const longestMatch = 64
const nothing: Proposal = Object.freeze({ tokens: Object.freeze([]) })

/** The kind of a draft by the length of its match: acceptance is learned by kind, and grows with the length. */
const kindOf = (matched: number): number =>
  matched < 5 ? matched - 1 : Math.min(11, 2 + Math.floor(2 * Math.log2(matched / 2)))

/**
 * Drafts the tokens that followed the last tokens at their previous occurrence in prompt or answer. Prompt lookup
 * decoding: Saxena, 2023.
 */
class NgramDrafter implements Drafter {
  readonly #indexes: readonly NgramIndex[]
  #known = 0

  constructor(longest: number, shortest: number) {
    const lengths = Array.from({ length: longest - shortest + 1 }, (_, index) => longest - index)
    this.#indexes = lengths.map((length) => new NgramIndex(length))
  }

  propose(tokens: readonly TokenId[], most: number): Proposal {
    const end = tokens.length
    this.#learn(tokens, end - 1)
    let best = 0
    let matched = 0
    for (const index of this.#indexes) {
      const found = index.find(tokens, end)
      if (found === undefined) continue
      const length = matchLength(tokens, found, end)
      if (length < index.length) continue
      best = found
      matched = length
      break
    }
    if (matched === 0) return nothing
    const guess: TokenId[] = []
    for (let at = best; guess.length < most; at++) guess.push(tokens[at] ?? guess[at - end] ?? -1)
    return { tokens: guess, kind: kindOf(matched) }
  }

  /** Adds the n-grams that end at `end` or before; the one being looked up is not added, as it would find itself. */
  #learn(tokens: readonly TokenId[], end: number): void {
    for (const index of this.#indexes) {
      for (let at = this.#known + 1; at <= end; at++) index.add(tokens, at)
    }
    this.#known = Math.max(this.#known, end)
  }
}

/** How many tokens before both ends are equal. */
function matchLength(tokens: readonly TokenId[], found: number, end: number): number {
  let length = 0
  while (length < longestMatch && length < found) {
    if (tokens[found - 1 - length] !== tokens[end - 1 - length]) break
    length++
  }
  return length
}

const size = z.int().min(1).max(8)

/** The built-in proposer. */
export const ngramProposer = defineProposer({
  name: 'ngram',
  doc: 'Looks the last tokens up in prompt and answer and guesses that the text goes on as it did there.',
  options: z.object({
    longest: size.default(4).describe('Tokens that are looked up at first.'),
    shortest: size
      .default(2)
      .describe('Tokens that are looked up at last, when more were not found.'),
  }),
  create({ longest, shortest }): Proposer {
    return { begin: () => new NgramDrafter(Math.max(longest, shortest), shortest) }
  },
})

/** The value of `EngineOptions.speculative` that means the draft model. */
export const draftModelName = 'draft'

/** The draft model of an engine, if it has one. */
export interface DraftBackend {
  readonly backend?: Backend
}

/** The {@link DraftBackend}: the draft model, if there is one. */
export const DRAFT_BACKEND = token<DraftBackend>('DraftBackend')

/** llama.cpp's own limit of how much two vocabularies may differ in length (`SPEC_VOCAB_MAX_SIZE_DIFFERENCE`). */
const mostExtraTokens = 128
/** Tokens whose texts are compared, evenly spread. */
const comparedTokens = 1000

/**
 * Checks that a model can draft for another one: that single tokens can be removed from its slots, and that both have the
 * same vocabulary, up to a few tokens at the end.
 *
 * @throws `invalid_configuration` that says what differs
 */
export function checkDraftBackend(draft: Backend, served: Backend): void {
  const [its, own] = [draft.model, served.model]
  const fail = (reason: string) => {
    const message = `speculative: ${its.id} cannot guess for ${own.id}: ${reason}`
    throw new CllmError('invalid_configuration', message, { details: { field: 'speculative' } })
  }
  if (draft.capabilities.drafts !== true) fail('its memory cannot take back single tokens')
  const [least, most] = [its.vocabularySize, own.vocabularySize].toSorted((a, b) => a - b)
  if (most! - least! > mostExtraTokens) {
    fail(`its vocabulary has ${its.vocabularySize} tokens, expected about ${own.vocabularySize}`)
  }
  const step = Math.max(1, Math.floor(least! / comparedTokens))
  for (let token = 0; token < least!; token += step) {
    const [guessed, expected] = [textOf(draft, token), textOf(served, token)]
    if (guessed !== expected) {
      fail(`token ${token} is ${JSON.stringify(guessed)}, expected ${JSON.stringify(expected)}`)
    }
  }
}

const textOf = ({ tokenizer }: Backend, token: number): string => tokenizer.decode([token])

/** Drafts the text that a constraint forces. */
export const forcedText: Proposer = {
  begin: ({ forced }) => forced && { propose: forced },
}

const grammarProposer = defineProposer({
  name: 'grammar',
  doc: 'Guesses what a constraint leaves no choice about, as all proposers do first.',
  create: () => forcedText,
})

/** The proposer that `auto` stands for. */
const automatic = 'ngram'

/** The {@link ProposerCatalog}: the proposers of draft tokens. */
export const PROPOSERS = token<ProposerCatalog>('Proposers')

/** The proposers by name: the built-in `ngram` and `grammar`, and those of plug-ins. */
export class ProposerCatalog extends Definitions<ProposerDefinition> {
  constructor() {
    super('proposer', 'speculative')
    this.add(ngramProposer)
    this.add(grammarProposer)
  }

  /** The values of `--speculative`, besides a model. */
  override get names(): string[] {
    return ['auto', 'off', ...super.names.toSorted()]
  }

  /** @throws `plugin_invalid`, or `plugin_conflict` when there is one of this name */
  override add(definition: ProposerDefinition): void {
    if (['auto', 'off', draftModelName].includes(definition?.name)) {
      const message = `A proposer cannot be named "${definition.name}", which means something else`
      throw new CllmError('plugin_invalid', message)
    }
    super.add(definition)
  }

  /**
   * Makes the proposer of this name with these options; `off` is none.
   *
   * @throws `invalid_configuration` with the valid names, or with what is wrong with the options
   */
  create(name: string, options: GivenOptions = {}): Proposer | undefined {
    const definition = this.#named(name)
    if (definition === undefined) return undefined
    const checked = this.options(definition, options)
    return this.made(definition.name, () => definition.create(checked), 'begin')
  }

  /**
   * Checks that there is a proposer of this name and that it takes these options.
   *
   * @throws as {@link create}
   */
  check(name: string, options: GivenOptions = {}): void {
    const definition = this.#named(name)
    if (definition !== undefined) this.options(definition, options)
  }

  #named(name: string): ProposerDefinition | undefined {
    if (name === 'off') return undefined
    return this.find(name === 'auto' ? automatic : name, this.names, ' or a model')
  }
}
