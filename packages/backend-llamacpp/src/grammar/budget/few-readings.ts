import { CllmError } from '@cllm/core'
import { ElementKind, endsAlternative, type GbnfRules } from '../gbnf/gbnf-rules.js'
import { type CodePointSet, isSameSet } from '../pattern/characters/code-point-set.js'
import { charactersAt } from './element-characters.js'
import { followSets } from './follow-sets.js'
import { grammarLimits } from './grammar-limits.js'
import { type Stack, StackGraph } from './stack-graph.js'

/** Stacks that the analysis visits before it gives up: some 20 ms. */
const mostVisits = 60_000
/** Steps from characters to what may follow them, in all. */
const mostSteps = 200_000
/** Readings that may go on side by side over any characters; over one literal there may be more. */
const mostParallel = 40

/**
 * The most readings that any text has at once, where the rules alone show that readings never
 * multiply: then no token of any vocabulary takes more than that many walks through the grammar, and
 * nothing needs to be counted before a draw. Undefined where the rules do not show it.
 *
 * The condition generalizes LL(1). Where a rule has alternatives, the readings that share their next
 * characters are followed until one is left; none may arrive where another one is, and none may
 * leave the rule while another can read what follows the rule. So every rule begins with one reading
 * and ends with one. JSON, and schemas with optional members and unions, are like this.
 */
export function fewReadings(rules: GbnfRules): number | undefined {
  const { kinds, starts } = rules
  if (kinds.some((kind) => kind === ElementKind.Token || kind === ElementKind.NotToken)) {
    return undefined
  }
  try {
    const analysis = new Analysis(rules)
    for (const [rule, start] of starts.entries()) {
      if (!hasAlternatives(kinds, start) || analysis.isCovered(rule)) continue
      if (!analysis.decides(rule)) return undefined
    }
    return analysis.widest
  } catch (error) {
    if (CllmError.isInstance(error)) return undefined // A limit of the graph.
    throw error
  }
}

class Analysis {
  readonly #rules: GbnfRules
  readonly #graph: StackGraph
  readonly #follow: readonly CodePointSet[]
  readonly #characters = new Map<number, CodePointSet>()
  /** Rules that are an alternative of another one, with the same characters behind both. */
  readonly #covered = new Set<number>()
  #visits = 0
  widest = 1

  constructor(rules: GbnfRules) {
    this.#rules = rules
    this.#graph = new StackGraph(rules, mostSteps)
    this.#follow = followSets(rules, this.#graph, (stack) => this.#charactersOf(stack))
    for (const [rule, start] of rules.starts.entries()) this.#cover(rule, start)
  }

  /** Whether {@link decides} for another rule includes this one. */
  isCovered(rule: number): boolean {
    return this.#covered.has(rule)
  }

  /** Whether the characters of a text decide between the rule's alternatives as above. */
  decides(rule: number): boolean {
    const seen = new Set<string>()
    const todo = [this.#graph.enter(rule)]
    for (let stacks = todo.pop(); stacks !== undefined; stacks = todo.pop()) {
      this.#visits += stacks.length
      this.widest = Math.max(this.widest, stacks.length)
      if (this.#visits > mostVisits || stacks.length > grammarLimits.readings) return false
      const after = this.#shared(stacks, this.#follow[rule]!)
      if (after === undefined) return false
      for (const next of after) {
        const key = next.join()
        if (seen.has(key)) continue
        seen.add(key)
        todo.push(next)
      }
    }
    return true
  }

  /**
   * What comes after each character that several stacks can read; undefined where two readings
   * become one, or one of them has left the rule.
   */
  #shared(stacks: readonly Stack[], follow: CodePointSet): Stack[][] | undefined {
    const edges: { readonly code: number; readonly stack: Stack; readonly isEnd: boolean }[] = []
    for (const stack of stacks) {
      for (const [first, last] of stack === 0 ? follow : this.#charactersOf(stack)) {
        edges.push({ code: first, stack, isEnd: false }, { code: last + 1, stack, isEnd: true })
      }
    }
    // letters of all scripts are some hundred ranges
    this.#visits += edges.length >> 4
    edges.sort((a, b) => a.code - b.code)
    const open = new Set<Stack>()
    const after: Stack[][] = []
    for (const [index, { code, stack, isEnd }] of edges.entries()) {
      if (isEnd) open.delete(stack)
      else open.add(stack)
      const width = (edges[index + 1]?.code ?? code) - code
      if (open.size < 2 || width === 0) continue
      if (open.has(0) || (open.size > mostParallel && width > 1)) return undefined
      this.#visits += open.size
      const next = [...open].flatMap((one) => this.#graph.next(one))
      if (new Set(next).size < next.length || this.#visits > mostVisits) return undefined
      after.push(next.sort((a, b) => a - b))
    }
    return after
  }

  #cover(rule: number, start: number): void {
    const { kinds, values } = this.#rules
    if (!hasAlternatives(kinds, start)) return
    for (let at = start, isFirst = true; kinds[at] !== ElementKind.End; at++) {
      const isAlone = isFirst && kinds[at] === ElementKind.Rule && endsAlternative(kinds[at + 1]!)
      const follow = this.#follow[values[at]!]
      if (isAlone && isSameSet(follow!, this.#follow[rule]!)) this.#covered.add(values[at]!)
      isFirst = kinds[at] === ElementKind.Alternative
    }
  }

  #charactersOf(stack: Stack): CodePointSet {
    const top = this.#graph.top(stack)
    const known = this.#characters.get(top)
    if (known !== undefined) return known
    const characters = charactersAt(this.#rules, top) ?? []
    this.#characters.set(top, characters)
    return characters
  }
}

function hasAlternatives(kinds: Uint8Array, start: number): boolean {
  let at = start
  while (!endsAlternative(kinds[at]!)) at++
  return kinds[at] === ElementKind.Alternative
}
