import { CllmError, type Proposal, type TokenId, entryOf } from '@cllm/core'
import { forcedText, type JsonLayout } from './forced-text.js'
import { GrammarStacks, type Place, readByte, type Stack, tooAmbiguous } from './grammar-stacks.js'
import { bytesBehind, type TokenTrie } from './token-trie.js'
import { ElementKind, type GbnfRules } from '../gbnf/gbnf-rules.js'
import { grammarLimits } from '../refuse.js'

/** Where a text is in its grammar. */
export interface GrammarState extends Place {
  readonly graph: GrammarStacks
}

/** The tokens of a model, as grammars see them. */
export interface GrammarTokens {
  readonly size: number
  readonly endOfGeneration: ReadonlySet<TokenId>
  /** The UTF-8 bytes of a token's text; none for control tokens. */
  bytes(token: TokenId): Uint8Array
  /** Those with a text that do not end generation. */
  readonly trie: TokenTrie
  /** The tokens of a text that stands behind another one. */
  encode(text: string): readonly TokenId[]
}

/** Sets of tokens that are kept. */
const mostMasks = 32
/** Characters of forced text for each of the tokens that it may have. */
const forcedCharacters = 8
const encoder = new TextEncoder()
const nothing: Proposal = { tokens: [] }
/** What a stack costs that was not there before, in comparisons. */
const newStack = 10

/**
 * Which tokens a grammar allows next: one token is read by its bytes, all are found in one walk over the
 * tree of their texts, which leaves out what begins wrong. The work is bounded, whatever the grammar is.
 */
export class TokenGrammar {
  readonly #namesTokens: boolean
  #graph: GrammarStacks
  readonly #masks = new Map<string, Uint32Array>()

  constructor(
    private readonly rules: GbnfRules,
    private readonly tokens: GrammarTokens,
  ) {
    this.#graph = new GrammarStacks(rules)
    this.#namesTokens = rules.kinds.some((kind) => kind >= ElementKind.Token)
  }

  /**
   * The state of an empty text.
   * @throws CllmError `invalid_constraint` when it can be read in too many ways
   */
  begin(): GrammarState {
    const graph = this.#graph
    return { graph, stacks: graph.first(), code: 0, left: 0 }
  }

  /**
   * The state behind a token; undefined where it may not come. What ends generation may come at an end.
   * @throws CllmError `invalid_constraint` when there are too many ways to read it
   */
  after(state: GrammarState, token: TokenId): GrammarState | undefined {
    if (this.tokens.endOfGeneration.has(token)) return this.#isEnd(state) ? state : undefined
    const { graph, ...from } = this.#renewed(state)
    let place: Place | undefined = from
    const bytes = this.tokens.bytes(token)
    for (const byte of bytes) place = place && readByte(graph, place, byte)
    if (bytes.length === 0) place = undefined
    if (this.#namesTokens && from.left === 0) place = this.#byToken(graph, from, place, token)
    return place && { graph, ...place }
  }

  /**
   * The tokens that may come next, a bit for each.
   * @throws CllmError `invalid_constraint` when it takes too long to find them
   */
  mask(before: GrammarState): Uint32Array {
    const state = this.#renewed(before)
    const key = `${state.code} ${state.left} ${state.stacks.toSorted((a, b) => a - b).join()}`
    return entryOf(this.#masks, key, () => {
      const mask = new Uint32Array((this.tokens.size + 31) >> 5)
      new MaskWalk(state.graph, this.tokens.trie, mask).visit(0, state)
      if (this.#namesTokens) this.#addNamed(state, mask)
      if (this.#isEnd(state)) for (const token of this.tokens.endOfGeneration) add(mask, token)
      if (this.#masks.size === mostMasks) this.#masks.clear()
      return mask
    })
  }

  /**
   * The tokens that the grammar leaves no choice about, at most `most`, as the model probably writes them.
   * Without the last one where it may be part of a longer one. Another kind where white space is a mere guess.
   */
  forced(before: GrammarState, layout: JsonLayout, most: number): Proposal {
    if (before.left > 0) return nothing
    try {
      const { graph, stacks } = this.#renewed(before)
      const forced = forcedText(graph, stacks, layout, forcedCharacters * most)
      if (forced.text === '') return nothing
      const tokens = this.tokens.encode(forced.text)
      if (!this.#spell(tokens, forced.text)) return nothing
      const isWhole = !this.#maySpread(tokens.at(-1)!, graph, forced.stacks)
      const count = Math.min(most, isWhole ? Infinity : tokens.length - 1)
      return { tokens: tokens.slice(0, count), kind: Number(forced.isGuess) }
    } catch (error) {
      // it takes too long, as the draw will find
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

  /** Whether a fair part of what may come behind a token makes a longer token with it. */
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

  #isEnd({ stacks, left }: Place): boolean {
    return left === 0 && stacks.includes(0)
  }

  /** The state in the latest graph, which takes the place of one that has become large. */
  #renewed(state: GrammarState): GrammarState {
    if (state.graph === this.#graph && !state.graph.isFull) return state
    if (this.#graph.isFull) {
      this.#graph = new GrammarStacks(this.rules)
      this.#masks.clear()
    }
    const graph = this.#graph
    return { ...state, graph, stacks: graph.adopt(state.graph, state.stacks) }
  }

  /** With the readings that name the token or say which it is not. */
  #byToken(graph: GrammarStacks, { stacks }: Place, place: Place | undefined, token: TokenId) {
    const next = new Set<Stack>()
    for (const [stack, named, isNamed] of this.#named(graph, stacks)) {
      // another token than this one: one that has a text
      const isAnother = named !== token && this.tokens.bytes(token).length > 0
      if (isNamed ? named !== token : !isAnother) continue
      for (const one of graph.next(stack)) next.add(one)
    }
    if (next.size === 0) return place
    // a character that has come in part is one reading, and what names the token another one
    for (const one of place?.left === 0 ? place.stacks : []) next.add(one)
    return { stacks: [...next], code: 0, left: 0 }
  }

  #addNamed({ graph, stacks, left }: GrammarState, mask: Uint32Array): void {
    for (const [, named, isNamed] of left === 0 ? this.#named(graph, stacks) : []) {
      if (isNamed) {
        if (named < this.tokens.size) add(mask, named)
        continue
      }
      for (const token of this.tokens.trie.tokens) if (token !== named) add(mask, token)
    }
  }

  /** The readings that wait for tokens: for the named one, or for any other one. */
  *#named(graph: GrammarStacks, stacks: readonly Stack[]) {
    const { kinds, values } = this.rules
    for (const stack of stacks) {
      const top = graph.top(stack)
      const kind = stack === 0 ? undefined : kinds[top]
      if (kind !== ElementKind.Token && kind !== ElementKind.NotToken) continue
      yield [stack, values[top]!, kind === ElementKind.Token] as const
    }
  }
}

function add(mask: Uint32Array, token: TokenId): void {
  mask[token >> 5]! |= 1 << (token & 31)
}

/** Adds the tokens to a mask whose texts a grammar allows. */
class MaskWalk {
  readonly #limit: number
  readonly #stacks: number
  #comparisons = 0

  constructor(
    private readonly graph: GrammarStacks,
    private readonly trie: TokenTrie,
    private readonly mask: Uint32Array,
  ) {
    const { comparisons, comparisonsPerByte } = grammarLimits
    this.#limit = comparisons + comparisonsPerByte * trie.bytes.length
    this.#stacks = graph.size
  }

  /** @param place - the one behind the text of the node */
  visit(node: number, place: Place): void {
    const { bytes, ends, tokens, starts } = this.trie
    const end = ends[node]!
    for (let child = node + 1; child < end; child = ends[child]!) {
      this.#comparisons += place.stacks.length
      const next = readByte(this.graph, place, bytes[child]!)
      if (next === undefined) continue
      for (let at = starts[child]!; at < starts[child + 1]!; at++) add(this.mask, tokens[at]!)
      this.#check()
      this.visit(child, next)
    }
  }

  #check(): void {
    const made = this.graph.size - this.#stacks
    const limit = this.#limit
    if (this.#comparisons + newStack * made <= limit) return
    const reason = `to find the next token would take more than ${limit} comparisons`
    throw tooAmbiguous(reason, limit)
  }
}
