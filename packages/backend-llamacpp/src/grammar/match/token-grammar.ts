import type { Proposal, TokenId } from '@cllm/core'
import { CllmError } from '@cllm/core/errors'
import { LRUCache } from 'lru-cache'
import { forcedText, type JsonLayout } from './forced-text.js'
import { GrammarStacks, type Stack, type TextPlace, tooAmbiguous } from './grammar-stacks.js'
import { bytesBehind, type TokenTrie } from './token-trie.js'
import { ElementKind, type GbnfRules } from '../gbnf/gbnf-rules.js'
import { checkWork, grammarLimits, type WorkLimits } from '../refuse.js'

/** The state of a grammar behind a text. */
export interface GrammarState {
  readonly graph: GrammarStacks
  readonly place: TextPlace
}

/** The tokens of a model, as grammars need them. */
export interface GrammarTokens {
  readonly size: number
  readonly endOfGeneration: ReadonlySet<TokenId>
  /** The UTF-8 bytes of a token's text; none for control tokens. */
  bytes(token: TokenId): Uint8Array
  /** The tokens that have a text and do not end generation. */
  readonly trie: TokenTrie
  /** The tokens of a text that continues another one; special tokens are only recognized with `special`. */
  encode(text: string, special?: boolean): readonly TokenId[]
}

/** The size in bytes of the cache of masks: a string of bounded length has one mask for each length. */
const maskBytes = 1.5 * 2 ** 20
/** The estimated bytes of these masks and of the stacks. */
const matchingBytes = 5 * 2 ** 20
/** The bytes of a cached mask besides its bits; the cache allocates room for all entries at once. */
const entryBytes = 100
/** The most characters of forced text for each token that is asked for. */
const forcedCharacters = 8
const encoder = new TextEncoder()
const nothing: Proposal = { tokens: [] }
/** The cost of a new stack, in comparisons. */
const newStack = 10

/**
 * Tells which tokens a grammar allows next. It tests one token by its bytes, and finds all in one walk over the trie of
 * their texts, which skips branches that the grammar does not allow. The work is bounded for any grammar.
 */
export class TokenGrammar {
  readonly #namesTokens: boolean
  #graph: GrammarStacks
  /** The masks of places in the latest graph. */
  readonly #masks: LRUCache<TextPlace, Uint32Array>

  /** @param first - the mask of an empty text, if it is known */
  constructor(
    readonly rules: GbnfRules,
    private readonly tokens: GrammarTokens,
    first?: Uint32Array,
  ) {
    this.#graph = new GrammarStacks(rules)
    this.#masks = new LRUCache({ max: Math.ceil(maskBytes / (entryBytes + tokens.size / 8)) })
    this.#namesTokens = rules.kinds.some((kind) => kind >= ElementKind.Token)
    if (first !== undefined) this.#masks.set(this.begin().place, first)
  }

  /** The most bytes that the grammar takes. */
  get mostBytes(): number {
    return matchingBytes + 8 * this.rules.kinds.length + 64 * this.rules.starts.length
  }

  /**
   * The state of an empty text.
   * @throws CllmError `invalid_constraint` if it can be read in too many ways
   */
  begin(): GrammarState {
    const graph = this.#graph
    return { graph, place: graph.place(graph.first()) }
  }

  /**
   * The state behind a token; undefined if the token may not come. Tokens that end generation may come where the
   * grammar can end.
   * @param skipped - bytes at the beginning of the token's text that the grammar does not cover
   * @throws CllmError `invalid_constraint` if there are too many ways to read it
   */
  after(state: GrammarState, token: TokenId, skipped = 0): GrammarState | undefined {
    if (this.tokens.endOfGeneration.has(token)) return isEnd(state.place) ? state : undefined
    const { graph, place: from } = this.#renewed(state)
    const bytes = this.tokens.bytes(token).subarray(skipped)
    let place: TextPlace | null = bytes.length === 0 ? null : from
    for (const byte of bytes) place = place && graph.read(place, byte)
    if (this.#namesTokens) place = this.#withNamed(place, graph, from, token)
    return place ? { graph, place } : undefined
  }

  /**
   * The tokens that may come next, one bit per token.
   * @throws CllmError `invalid_constraint` if it takes too long to find them
   */
  mask(before: GrammarState, limits: WorkLimits = grammarLimits): Uint32Array {
    const { graph, place } = this.#renewed(before)
    const known = this.#masks.get(place)
    if (known !== undefined) return known
    const mask = new Uint32Array((this.tokens.size + 31) >> 5)
    try {
      allow(graph, this.tokens.trie, place, mask, limits)
    } finally {
      // the graph may have grown by tens of megabytes, which a cached grammar would keep until its next use
      this.#renew()
    }
    if (this.#namesTokens) this.#addNamed(graph, place, mask)
    if (isEnd(place)) for (const token of this.tokens.endOfGeneration) add(mask, token)
    if (graph === this.#graph) this.#masks.set(place, mask)
    return mask
  }

  /**
   * The tokens that the grammar leaves no choice about, at most `most`, as the model probably writes them. Leaves out
   * the last one if it may be part of a longer token. The proposal's kind is 1 if its white space is a mere guess,
   * else 0.
   */
  forced(before: GrammarState, layout: JsonLayout, most: number): Proposal {
    if (before.place.left > 0) return nothing
    try {
      const { graph, place } = this.#renewed(before)
      const forced = forcedText(graph, place.stacks, layout, forcedCharacters * most)
      if (forced.text === '') return nothing
      const tokens = this.tokens.encode(forced.text)
      if (!this.#spell(tokens, forced.text)) return nothing
      const isWhole = !this.#maySpread(tokens.at(-1)!, graph, forced.stacks)
      const count = Math.min(most, isWhole ? Infinity : tokens.length - 1)
      return { tokens: tokens.slice(0, count), kind: Number(forced.isGuess) }
    } catch (error) {
      // it takes too long; the draw will fail with this error
      if (CllmError.isInstance(error)) return nothing
      throw error
    }
  }

  #spell(tokens: readonly TokenId[], text: string): boolean {
    const bytes = encoder.encode(text)
    let at = 0
    for (const token of tokens) {
      for (const byte of this.tokens.bytes(token)) if (bytes[at++] !== byte) return false
    }
    return at === bytes.length
  }

  /** Whether more than a quarter of the characters that may follow a token form a longer token with it. */
  #maySpread(token: TokenId, graph: GrammarStacks, stacks: readonly Stack[]): boolean {
    const longer = bytesBehind(this.tokens.trie, this.tokens.bytes(token))
    let [all, joined] = [0, 0]
    for (let code = 0x20; code < 0x7f; code++) {
      if (!stacks.some((stack) => graph.waitsFor(stack, code, code))) continue
      all++
      joined += Number(longer.has(code))
    }
    return 4 * joined > all
  }

  /** Replaces the graph if it has become large. */
  #renew(): void {
    if (!this.#graph.isFull) return
    this.#graph = new GrammarStacks(this.rules)
    this.#masks.clear()
  }

  /** The same state in the latest graph. */
  #renewed(state: GrammarState): GrammarState {
    this.#renew()
    const graph = this.#graph
    if (state.graph === graph) return state
    const { stacks, code, left } = state.place
    return { graph, place: graph.place(graph.adopt(state.graph, stacks), code, left) }
  }

  /** Adds to the place behind a token's text the stacks behind elements that name the token or exclude another one. */
  #withNamed(text: TextPlace | null, graph: GrammarStacks, from: TextPlace, token: TokenId) {
    const behind = new Set<Stack>()
    for (const { stack, named, isExcluded } of this.#named(graph, from)) {
      const hasText = this.tokens.bytes(token).length > 0
      const fits = isExcluded ? named !== token && hasText : named === token
      for (const one of fits ? graph.next(stack) : []) behind.add(one)
    }
    if (behind.size === 0) return text
    // an incomplete character cannot be kept beside these stacks
    for (const stack of text?.left === 0 ? text.stacks : []) behind.add(stack)
    return graph.place([...behind])
  }

  #addNamed(graph: GrammarStacks, place: TextPlace, mask: Uint32Array): void {
    for (const { named, isExcluded } of this.#named(graph, place)) {
      if (isExcluded) {
        for (const token of this.tokens.trie.tokens) if (token !== named) add(mask, token)
      } else if (named < this.tokens.size) add(mask, named)
    }
  }

  /** The stacks that wait for a token instead of a character: for the named token, or for any other with a text. */
  *#named(graph: GrammarStacks, { stacks, left }: TextPlace) {
    if (left > 0) return
    const { kinds, values } = this.rules
    for (const stack of stacks) {
      const top = graph.top(stack)
      const kind = stack === 0 ? undefined : kinds[top]
      if (kind !== ElementKind.Token && kind !== ElementKind.NotToken) continue
      yield { stack, named: values[top]!, isExcluded: kind === ElementKind.NotToken }
    }
  }
}

const isEnd = ({ stacks, left }: TextPlace): boolean => left === 0 && stacks.includes(0)

function add(mask: Uint32Array, token: TokenId): void {
  mask[token >> 5]! |= 1 << (token & 31)
}

/**
 * Adds to a mask the tokens whose texts a grammar allows behind a place.
 * @throws CllmError `invalid_constraint` if that takes too long
 */
function allow(
  graph: GrammarStacks,
  trie: TokenTrie,
  from: TextPlace,
  mask: Uint32Array,
  limits: WorkLimits,
): void {
  const { bytes, ends, tokens, starts } = trie
  const free = grammarLimits.comparisonsPerByte * bytes.length
  const check = (done: number) =>
    checkWork('comparisons', done - free, limits, (limit) => tooLong(limit + free))
  const size = graph.size
  let compared = 0
  /** For each node on the path to this one: the place behind its text, and the index behind its subtree. */
  const places = [from]
  const behind = [bytes.length]
  for (let node = 1, depth = 0; node < bytes.length;) {
    while (node >= behind[depth]!) depth--
    const place = places[depth]!
    const byte = bytes[node]!
    let next = place.behind[byte]
    compared += place.stacks.length
    if (next === undefined) {
      next = graph.read(place, byte)
      check(compared + newStack * (graph.size - size))
    }
    if (next === null) {
      node = ends[node]!
      continue
    }
    for (let at = starts[node]!; at < starts[node + 1]!; at++) add(mask, tokens[at]!)
    depth++
    places[depth] = next
    behind[depth] = ends[node]!
    node++
  }
  check(compared)
}

function tooLong(limit: number): CllmError {
  const reason = `to find the next token would take more than ${limit} comparisons`
  return tooAmbiguous(reason, limit)
}
