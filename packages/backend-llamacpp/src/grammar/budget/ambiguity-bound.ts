import { CllmError } from '@cllm/core'
import { grammarLimits } from './grammar-limits.js'
import { FirstSets, followSets } from './first-sets.js'
import { KnownSets } from './known-sets.js'
import { type Stack, GrammarStacks } from './grammar-stacks.js'
import { alternativesOf, ElementKind, endsAlternative, type GbnfRules } from '../gbnf/gbnf-rules.js'
import type { CodePointRange } from '../gbnf/gbnf-writer.js'
import type { CodePointSet } from '../pattern/characters/code-point-set.js'

/** Stacks that the analysis visits before it gives up: some 30 ms. */
const mostVisits = 20_000
/** Steps from characters to what may follow them, in all. */
const mostSteps = 100_000
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
export function ambiguityBound(rules: GbnfRules): number | undefined {
  const { kinds } = rules
  if (kinds.some((kind) => kind === ElementKind.Token || kind === ElementKind.NotToken)) {
    return undefined
  }
  try {
    const analysis = new Analysis(rules)
    const left = [...rules.starts.keys()].filter((rule) => !analysis.decidesAtOnce(rule))
    for (const rule of left) analysis.cover(rule)
    return left.every((rule) => analysis.isCovered(rule) || analysis.decides(rule))
      ? analysis.widest
      : undefined
  } catch (error) {
    if (CllmError.isInstance(error)) return undefined // A limit of the graph.
    throw error
  }
}

/** Stacks that can read the same characters. */
interface Overlap {
  readonly open: readonly Stack[]
  /** The most such characters in a row. */
  width: number
}

class Analysis {
  readonly #rules: GbnfRules
  readonly #graph: GrammarStacks
  readonly #sets: KnownSets
  readonly #first: FirstSets
  readonly #follow: readonly CodePointSet[]
  /** Rules that are an alternative of another one, with the same characters behind both. */
  readonly #covered = new Set<number>()
  #visits = 0
  widest = 1

  constructor(rules: GbnfRules) {
    this.#rules = rules
    this.#graph = new GrammarStacks(rules, mostSteps)
    this.#sets = new KnownSets(rules)
    this.#first = new FirstSets(rules, this.#sets)
    this.#follow = followSets(rules, this.#first, this.#sets)
  }

  /** Whether the first character tells the rule's alternatives apart: most rules are like this. */
  decidesAtOnce(rule: number): boolean {
    if (!hasAlternatives(this.#rules.kinds, this.#rules.starts[rule]!)) return true
    const ranges: CodePointRange[] = []
    let [ways, empty] = [0, 0]
    for (const start of alternativesOf(this.#rules, rule)) {
      const one = this.#first.from(start)
      ways += one.ways
      if (one.isEmpty) empty++
      this.#sets.spend(one.characters.length)
      for (const range of one.characters) ranges.push(range)
    }
    if (empty > 0) for (const range of this.#follow[rule]!) ranges.push(range)
    ranges.sort((a, b) => a[0] - b[0])
    const isTold =
      empty < 2 && ranges.every(([first], at) => at === 0 || ranges[at - 1]![1] < first)
    if (isTold) this.widest = Math.max(this.widest, ways)
    return isTold
  }

  /** Notes the rules for which {@link decides} for this one decides as well. */
  cover(rule: number): void {
    const { kinds, values } = this.#rules
    for (const at of alternativesOf(this.#rules, rule)) {
      const isAlone = kinds[at] === ElementKind.Rule && endsAlternative(kinds[at + 1]!)
      const inner = values[at]!
      if (isAlone && this.#follow[inner] === this.#follow[rule]) this.#covered.add(inner)
    }
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
    const groups = new Map<CodePointSet, Stack[]>()
    for (const stack of stacks) {
      const set = stack === 0 ? follow : this.#charactersOf(stack)
      const others = groups.get(set)
      if (others === undefined) groups.set(set, [stack])
      else others.push(stack)
    }
    const after: Stack[][] = []
    for (const { open, width } of this.#overlaps(groups)) {
      if (open.length < 2) continue
      if (open.includes(0) || (open.length > mostParallel && width > 1)) return undefined
      this.#visits += open.length
      const next = open.flatMap((one) => this.#graph.next(one))
      if (this.#visits > mostVisits) return undefined
      next.sort((a, b) => a - b)
      if (next.some((one, at) => one === next[at - 1])) return undefined
      after.push(next)
    }
    return after
  }

  /** The stacks that can read the same characters, and how many characters in a row. */
  #overlaps(groups: ReadonlyMap<CodePointSet, readonly Stack[]>): readonly Overlap[] {
    const [only] = groups
    if (groups.size < 2)
      return only === undefined ? [] : [{ open: only[1], width: widest(only[0]) }]
    const edges: { readonly code: number; readonly group: number; readonly isEnd: boolean }[] = []
    const all = [...groups]
    for (const [group, [set]] of all.entries()) {
      for (const [first, last] of set) {
        edges.push({ code: first, group, isEnd: false }, { code: last + 1, group, isEnd: true })
      }
    }
    // letters of all scripts are some hundred ranges
    this.#visits += edges.length >> 3
    edges.sort((a, b) => a.code - b.code)
    const open = new Set<number>()
    const found = new Map<string, Overlap>()
    for (const [index, { code, group, isEnd }] of edges.entries()) {
      if (isEnd) open.delete(group)
      else open.add(group)
      const width = (edges[index + 1]?.code ?? code) - code
      if (open.size === 0 || width === 0) continue
      const numbers = [...open].toSorted((a, b) => a - b)
      const key = numbers.join()
      const known = found.get(key)
      if (known !== undefined) known.width = Math.max(known.width, width)
      else found.set(key, { open: numbers.flatMap((one) => all[one]![1]), width })
    }
    return [...found.values()]
  }

  #charactersOf(stack: Stack): CodePointSet {
    return this.#sets.at(this.#graph.top(stack))
  }
}

const widest = (set: CodePointSet): number =>
  set.reduce((most, [first, last]) => Math.max(most, last - first + 1), 0)

function hasAlternatives(kinds: Uint8Array, start: number): boolean {
  let at = start
  while (!endsAlternative(kinds[at]!)) at++
  return kinds[at] === ElementKind.Alternative
}
