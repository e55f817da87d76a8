import { grammarLimits } from './grammar-limits.js'
import { type Stack, type GrammarStacks, tooAmbiguous } from './grammar-stacks.js'
import type { TokenTrie } from './token-trie.js'
import { type GbnfRules, matchesCharacter } from '../gbnf/gbnf-rules.js'
import { refused } from '../refuse.js'

/** Steps of one advance that are negligible beside the token comparisons. */
const freeSteps = 64
/** The cost of a step the first time, here and in llama.cpp. */
const firstStep = 20
/** Total characters of the keys of checked stack sets. */
const mostKnown = 200_000

/**
 * Counts what llama.cpp does to find the tokens that a grammar allows next
 * (`llama_grammar_reject_candidates`). It follows each reading of each token by itself, so where two
 * readings of a text differ after every character, a token of 60 characters takes 2^60 steps. Here
 * equal readings are counted together, over all tokens as a tree.
 */
export class MaskCost {
  readonly #rules: GbnfRules
  readonly #graph: GrammarStacks
  readonly #trie: TokenTrie
  readonly #known = new Set<string>()
  #knownSize = 0
  readonly #limit: number
  #cost = 0

  constructor(rules: GbnfRules, graph: GrammarStacks, trie: TokenTrie) {
    this.#rules = rules
    this.#graph = graph
    this.#trie = trie
    const { comparisons, comparisonsPerCharacter } = grammarLimits
    this.#limit = comparisons + comparisonsPerCharacter * trie.characters
  }

  /**
   * Checks that the draw after these readings stays within the limits.
   * @throws CllmError `invalid_constraint`
   */
  check(stacks: readonly Stack[]): void {
    const key = stacks.toSorted((a, b) => a - b).join()
    if (this.#known.has(key)) return
    this.#cost = 0
    this.#visit(0, stacks, undefined, 1)
    this.#knownSize += key.length
    if (this.#knownSize > mostKnown) {
      this.#known.clear()
      this.#knownSize = key.length
    }
    this.#known.add(key)
  }

  /**
   * @param counts - how many ways there are to each stack
   * @param count - of all of them, where `counts` is undefined
   */
  #visit(
    node: number,
    stacks: readonly Stack[],
    counts: readonly number[] | undefined,
    count: number,
  ): void {
    const { codes, ends, tokens } = this.#trie
    this.#charge(tokens[node]!, stacks, counts, count)
    const end = ends[node]!
    for (let child = node + 1; child < end; child = ends[child]!) {
      const code = codes[child]!
      let first = -1
      let merged: Map<Stack, number> | undefined
      for (let index = 0; index < stacks.length; index++) {
        if (!this.#matches(stacks[index]!, code)) continue
        if (first < 0) {
          first = index
          continue
        }
        merged ??= this.#merge(new Map(), stacks[first]!, counts?.[first] ?? count)
        this.#merge(merged, stacks[index]!, counts?.[index] ?? count)
      }
      if (merged !== undefined) this.#visit(child, [...merged.keys()], [...merged.values()], 0)
      else if (first >= 0) {
        const next = this.#graph.next(stacks[first]!)
        this.#visit(child, next, undefined, counts?.[first] ?? count)
      }
    }
  }

  #matches(stack: Stack, code: number): boolean {
    return stack !== 0 && matchesCharacter(this.#rules, this.#graph.top(stack), code)
  }

  #merge(into: Map<Stack, number>, stack: Stack, count: number): Map<Stack, number> {
    for (const next of this.#graph.next(stack)) into.set(next, (into.get(next) ?? 0) + count)
    return into
  }

  #charge(
    tokens: number,
    stacks: readonly Stack[],
    counts: readonly number[] | undefined,
    count: number,
  ): void {
    let ways = 0
    for (let index = 0; index < stacks.length; index++) {
      const stack = stacks[index]!
      const each = counts?.[index] ?? count
      const isNew = stack !== 0 && !this.#graph.hasNext(stack)
      const steps = stack === 0 ? 0 : this.#graph.steps(stack)
      ways += each
      if (isNew) this.#spend(firstStep * steps)
      this.#spend(each * (tokens + Math.max(0, steps - freeSteps)))
    }
    if (ways > grammarLimits.readings) throw tooAmbiguous()
  }

  #spend(cost: number): void {
    this.#cost += cost
    if (this.#cost <= this.#limit) return
    const reason = `to find the next token would take more than ${this.#limit} comparisons`
    throw refused(`The grammar is too ambiguous: ${reason}`, { reason, limit: this.#limit })
  }
}
