import { type CodePointSet, includes } from './characters/code-point-set.js'
import { type Assertion, automataOf, type Nfa } from './nfa.js'
import { wordCharacters } from './characters/pattern-characters.js'
import type { Spend } from '../schema/schema-budget.js'

/** What is around a place in a text: a character of a word, another one, or nothing. */
type Side = 'word' | 'other' | 'none'

/** How far a text was read by each automaton. */
export interface Reading {
  readonly sets: readonly (readonly number[])[]
  /** The same for readings that go on alike. */
  readonly key: string
  /** What is before the next character. */
  readonly before: Side
}

/** Characters that no automaton tells apart. */
export interface CharacterClass {
  readonly characters: CodePointSet
  /** One of them. */
  readonly sample: number
}

/** The automata of several patterns, which read a text together. */
export class Automata {
  readonly #all: readonly Nfa[]
  readonly #hasAssertions: boolean
  /** Where every text begins. */
  readonly start: Reading

  /** @throws PatternProblem for what no automaton can follow */
  constructor(
    patterns: readonly string[],
    private readonly spend: Spend,
  ) {
    this.#all = patterns.flatMap((pattern) => automataOf(pattern, spend))
    this.#hasAssertions = this.#all.some(({ states }) =>
      states.some(({ assertion }) => assertion !== undefined),
    )
    const sets = this.#all.map((nfa) => this.#reach(nfa, [nfa.start]))
    this.start = this.#reading(sets, this.#hasAssertions ? 'none' : 'other')
  }

  /** The reading behind a character. */
  after({ sets, before }: Reading, code: number): Reading {
    const next = sideOf(code)
    const moved = this.#all.map((nfa, nth) => {
      const from = this.#settled(nfa, sets[nth]!, before, next)
      const to = new Set<number>()
      for (const at of from) {
        const { set, next: others } = nfa.states[at]!
        if (set !== undefined && includes(set, code)) for (const one of others) to.add(one)
      }
      return this.#reach(nfa, to)
    })
    return this.#reading(moved, this.#hasAssertions ? next : 'other')
  }

  /** Whether a text may end here. */
  isEnd({ sets, before }: Reading): boolean {
    return this.#all.every(
      (nfa, nth) => this.#settled(nfa, sets[nth]!, before, 'none').includes(0) !== nfa.isNegated,
    )
  }

  /** Whether no text can go on from here. */
  isDead({ sets }: Reading): boolean {
    return this.#all.some(({ isNegated }, nth) => !isNegated && sets[nth]!.length === 0)
  }

  /** All characters, by what the automata tell apart. */
  classes(): readonly CharacterClass[] {
    const all = new Set(
      this.#all.flatMap(({ states }) => states.flatMap(({ set }) => (set ? [set] : []))),
    )
    if (this.#hasAssertions) all.add(wordCharacters)
    const distinct = [...new Map([...all].map((set) => [JSON.stringify(set), set])).values()]
    const cuts = new Set([0])
    for (const [first, last] of distinct.flat()) {
      cuts.add(first)
      if (last < 0x10ffff) cuts.add(last + 1)
    }
    const sorted = [...cuts].toSorted((a, b) => a - b)
    this.spend((sorted.length * distinct.length) >> 3)
    const groups = new Map<string, { characters: [number, number][]; sample: number }>()
    for (const [index, first] of sorted.entries()) {
      const last = (sorted[index + 1] ?? 0x110000) - 1
      const signature = distinct.map((set) => (includes(set, first) ? 1 : 0)).join('')
      const group = groups.get(signature) ?? { characters: [], sample: first }
      group.characters.push([first, last])
      groups.set(signature, group)
    }
    return [...groups.values()]
  }

  #reading(sets: readonly (readonly number[])[], before: Side): Reading {
    return { sets, before, key: `${before};${sets.map((set) => set.join()).join(';')}` }
  }

  /** The states with those behind assertions that hold here. */
  #settled(nfa: Nfa, set: readonly number[], before: Side, after: Side): readonly number[] {
    return this.#hasAssertions ? this.#reach(nfa, set, (one) => holds(one, before, after)) : set
  }

  /** The states from which something is taken or asserted, and 0 where a text may end; sorted. */
  #reach(
    { states }: Nfa,
    from: Iterable<number>,
    passes: (assertion: Assertion) => boolean = () => false,
  ): readonly number[] {
    const reached = new Set(from)
    for (const at of reached) {
      const { set, assertion, next } = states[at]!
      if (set !== undefined || (assertion !== undefined && !passes(assertion))) continue
      for (const one of next) reached.add(one)
    }
    this.spend(1 + (reached.size >> 1))
    return [...reached]
      .filter((at) => {
        const { set, assertion } = states[at]!
        return at === 0 || set !== undefined || assertion !== undefined
      })
      .toSorted((a, b) => a - b)
  }
}

const sideOf = (code: number): Side => (includes(wordCharacters, code) ? 'word' : 'other')

function holds(assertion: Assertion, before: Side, after: Side): boolean {
  if (assertion === 'start') return before === 'none'
  if (assertion === 'end') return after === 'none'
  return ((before === 'word') !== (after === 'word')) === (assertion === 'word')
}
