import { grammarLimits } from './grammar-limits.js'
import { MaskCost } from './mask-cost.js'
import { ambiguityBound } from './ambiguity-bound.js'
import { type Stack, GrammarStacks, tooAmbiguous } from './grammar-stacks.js'
import type { TokenTrie } from './token-trie.js'
import { checkRecursion } from '../gbnf/check-recursion.js'
import { parseGbnf } from '../gbnf/gbnf-parser.js'
import type { GbnfRules } from '../gbnf/gbnf-rules.js'
import { refused } from '../refuse.js'

/** A parsed grammar within the limits of {@link grammarLimits}. */
export class CountedGrammar {
  readonly rules: GbnfRules
  readonly graph: GrammarStacks
  /** Counts before each draw; undefined where {@link ambiguityBound} makes that unnecessary. */
  readonly cost: MaskCost | undefined
  /** The readings of an empty text. */
  readonly first: readonly Stack[]

  readonly #trie: TokenTrie | undefined

  private constructor(rules: GbnfRules, trie: TokenTrie | undefined) {
    this.rules = rules
    this.#trie = trie
    this.graph = new GrammarStacks(rules)
    this.cost = trie && new MaskCost(rules, this.graph, trie)
    this.first = this.graph.first()
  }

  /**
   * @param vocabularySize - tokens that llama.cpp compares with the grammar at each draw
   * @param trie - builds the tree of the vocabulary; called only where draws must be counted
   * @throws CllmError `invalid_constraint` with the problem or the limit exceeded, and its place
   */
  static parse(
    gbnf: string,
    root: string,
    vocabularySize: number,
    trie: () => TokenTrie,
  ): CountedGrammar {
    const rules = parseGbnf(gbnf, root)
    checkRecursion(rules)
    const readings = ambiguityBound(rules) ?? Infinity
    const isCheap = readings * vocabularySize <= grammarLimits.plainComparisons
    const grammar = new CountedGrammar(rules, isCheap ? undefined : trie())
    grammar.check(grammar.first)
    grammar.cost?.check(grammar.first)
    return grammar
  }

  /** The same grammar with an empty graph. */
  anew(): CountedGrammar {
    return new CountedGrammar(this.rules, this.#trie)
  }

  /**
   * Checks that llama.cpp can copy a state with these readings: a copy compares each of their
   * elements with all elements of the grammar.
   * @throws CllmError `invalid_constraint`
   */
  check(stacks: readonly Stack[]): void {
    if (stacks.length > grammarLimits.readings) throw tooAmbiguous()
    const elements = stacks.reduce((sum, stack) => sum + this.graph.depth(stack), 0)
    const limit = grammarLimits.copyComparisons
    const all = this.rules.kinds.length
    if (elements * all <= limit) return
    const reason =
      `${elements} elements in ${stacks.length} readings of a text, times ${all} elements of all ` +
      `rules, are more than ${limit}`
    throw refused(`The grammar is too ambiguous for its size: ${reason}`, { reason, limit })
  }
}
