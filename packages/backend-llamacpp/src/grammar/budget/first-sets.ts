import type { KnownSets } from './known-sets.js'
import {
  afterElement,
  alternativesOf,
  ElementKind,
  endsAlternative,
  type GbnfRules,
} from '../gbnf/gbnf-rules.js'
import { emptyRules, firstRules } from '../gbnf/rule-graph.js'
import type { CodePointSet } from '../pattern/characters/code-point-set.js'

/** With what the texts of something begin. */
export interface Beginning {
  readonly characters: CodePointSet
  /** Whether it may be empty. */
  readonly isEmpty: boolean
  /** In how many ways it begins or is empty, at most. */
  readonly ways: number
}

const ended: Beginning = { characters: [], isEmpty: true, ways: 1 }

/**
 * With which characters the texts of each rule begin: the FIRST sets of LL(1) parsing (Aho, Lam, Sethi,
 * Ullman, "Compilers", 4.4.2).
 */
export class FirstSets {
  readonly isEmpty: Uint8Array
  readonly #characters: CodePointSet[] = []
  readonly #ways: number[] = []

  constructor(
    private readonly rules: GbnfRules,
    private readonly sets: KnownSets,
  ) {
    this.isEmpty = emptyRules(rules)
    for (const rule of innerFirst(rules, this.isEmpty)) {
      let [characters, ways]: [CodePointSet, number] = [[], 0]
      for (const start of alternativesOf(rules, rule)) {
        const one = this.from(start)
        characters = sets.union(characters, one.characters)
        ways += one.ways
      }
      this.#characters[rule] = characters
      this.#ways[rule] = ways
    }
  }

  /** With what an alternative goes on from an element. */
  from(element: number): Beginning {
    const { kinds, values } = this.rules
    let [characters, ways]: [CodePointSet, number] = [[], 0]
    for (let at = element; ; at++) {
      if (endsAlternative(kinds[at]!)) return { characters, isEmpty: true, ways: ways + 1 }
      if (kinds[at] !== ElementKind.Rule) {
        characters = this.sets.union(characters, this.sets.at(at))
        return { characters, isEmpty: false, ways: ways + 1 }
      }
      const rule = values[at]!
      this.sets.spend(1)
      characters = this.sets.union(characters, this.#characters[rule] ?? [])
      ways += this.#ways[rule] ?? 0
      if (this.isEmpty[rule] === 0) return { characters, isEmpty: false, ways }
      ways--
    }
  }

  /** The rules that an alternative names, the last one first, with what comes behind each. */
  *behindRules(start: number): Generator<readonly [rule: number, after: Beginning], void> {
    const { kinds, values } = this.rules
    const parts: number[] = []
    for (let at = start; !endsAlternative(kinds[at]!); at = afterElement(this.rules, at))
      parts.push(at)
    let behind: number | Beginning = ended
    for (const at of parts.toReversed()) {
      if (kinds[at] !== ElementKind.Rule) {
        behind = at
        continue
      }
      const rule = values[at]!
      const after: Beginning = typeof behind === 'number' ? this.from(behind) : behind
      yield [rule, after]
      const own = this.#characters[rule] ?? []
      const isEmpty = this.isEmpty[rule] === 1
      behind = {
        characters: isEmpty ? this.sets.union(own, after.characters) : own,
        isEmpty: isEmpty && after.isEmpty,
        ways: 0,
      }
    }
  }
}

/** All rules, each behind those that it may begin with. */
function innerFirst(rules: GbnfRules, isEmpty: Uint8Array): number[] {
  const order: number[] = []
  const seen = new Uint8Array(rules.starts.length)
  for (const root of rules.starts.keys()) {
    const trail = [{ rule: root, first: undefined as number[] | undefined }]
    for (let visit = trail.at(-1); visit !== undefined; visit = trail.at(-1)) {
      if (visit.first === undefined && seen[visit.rule] === 1) {
        trail.pop()
        continue
      }
      seen[visit.rule] = 1
      visit.first ??= firstRules(rules, isEmpty, visit.rule)
      const inner = visit.first.pop()
      if (inner === undefined) order.push(trail.pop()!.rule)
      else if (seen[inner] === 0) trail.push({ rule: inner, first: undefined })
    }
  }
  return order
}

/**
 * For each rule the characters that can come directly after a text of it, wherever the grammar uses
 * the rule: the FOLLOW sets of LL(1) parsing.
 *
 * @throws CllmError where that takes too long
 */
export function followSets(rules: GbnfRules, first: FirstSets, sets: KnownSets): CodePointSet[] {
  const count = rules.starts.length
  const follow: CodePointSet[] = Array.from({ length: count }, () => [])
  /** Rules that can end where a rule ends: what follows the rule follows them. */
  const last: number[][] = Array.from({ length: count }, () => [])
  for (let rule = 0; rule < count; rule++) {
    for (const start of alternativesOf(rules, rule)) {
      for (const [used, after] of first.behindRules(start)) {
        follow[used] = sets.union(follow[used]!, after.characters)
        if (after.isEmpty) last[rule]!.push(used)
      }
    }
  }
  const isWaiting = new Uint8Array(count).fill(1)
  const changed = [...rules.starts.keys()]
  for (let rule = changed.pop(); rule !== undefined; rule = changed.pop()) {
    isWaiting[rule] = 0
    for (const inner of last[rule]!) {
      sets.spend(1)
      const merged = sets.union(follow[inner]!, follow[rule]!)
      if (merged === follow[inner]) continue
      follow[inner] = merged
      if (isWaiting[inner] === 0) changed.push(inner)
      isWaiting[inner] = 1
    }
  }
  return follow
}
