import { entryOf } from '@cllm/core'
import { type CodePointSet, includes, wordCharacters } from './code-point-set.js'
import { type Assertion, automataOf, holds, type Nfa, type Side, sideOf } from './nfa.js'
import type { Spend } from '../refuse.js'

/** How far a text was read by each automaton. */
export interface Reading {
  /** What each automaton has reached: the number of one of its {@link Reached}. */
  readonly reached: readonly number[]
  /** The same for readings that go on alike. */
  readonly key: string
  /** What is before the next character. */
  readonly before: Side
}

/** Characters that no automaton tells apart. */
interface CharacterClass {
  readonly characters: CodePointSet
  /** One of them. */
  readonly sample: number
}

/** States of an automaton that one text reaches, sorted. */
type Reached = readonly number[]

/** An automaton with what texts have reached in it: each step from there is made once. */
interface Explored {
  readonly nfa: Nfa
  readonly reached: Reached[]
  readonly numbers: Map<string, number>
  /** By a number of what was reached, a character and the sides of the place, as one number. */
  readonly steps: Map<number, number>
}

/** To look up what is known of a step. */
const knownSteps = 1
const codes = 0x110000
const sides: readonly Side[] = ['word', 'other', 'none']

/** The automata of several patterns, which read a text together. */
export class Automata {
  readonly #all: readonly Explored[]
  readonly #hasAssertions: boolean
  /** Where every text begins. */
  readonly start: Reading

  /** @throws PatternProblem for what no automaton can follow */
  constructor(
    patterns: readonly string[],
    private readonly spend: Spend,
  ) {
    this.#all = patterns
      .flatMap((pattern) => automataOf(pattern, spend))
      .map((nfa) => ({ nfa, reached: [], numbers: new Map(), steps: new Map() }))
    this.#hasAssertions = this.#all.some(({ nfa }) =>
      nfa.states.some(({ assertion }) => assertion !== undefined),
    )
    const reached = this.#all.map((one) => this.#reached(one, [one.nfa.start]))
    this.start = this.#reading(reached, this.#hasAssertions ? 'none' : 'other')
  }

  /** The reading behind a character. */
  after({ reached, before }: Reading, code: number): Reading {
    const next = sideOf(code)
    const moved = this.#all.map((one, nth) => this.#step(one, reached[nth]!, before, code, next))
    return this.#reading(moved, this.#hasAssertions ? next : 'other')
  }

  /** Whether a text may end here. */
  isEnd({ reached, before }: Reading): boolean {
    return this.#all.every((one, nth) => {
      const at = one.reached[reached[nth]!]!
      return this.#settled(one.nfa, at, before, 'none').includes(0) !== one.nfa.isNegated
    })
  }

  /** Whether no text can go on from here. */
  isDead({ reached }: Reading): boolean {
    return this.#all.some(
      ({ nfa, reached: all }, nth) => !nfa.isNegated && all[reached[nth]!]!.length === 0,
    )
  }

  /** All characters, by what the automata tell apart. */
  classes(): readonly CharacterClass[] {
    const all = new Set(
      this.#all.flatMap(({ nfa }) => nfa.states.flatMap(({ set }) => (set ? [set] : []))),
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
      const group = entryOf(groups, signature, () => ({ characters: [], sample: first }))
      group.characters.push([first, last])
    }
    return [...groups.values()]
  }

  #reading(reached: readonly number[], before: Side): Reading {
    return { reached, before, key: `${before};${reached.join()}` }
  }

  #step(one: Explored, from: number, before: Side, code: number, next: Side): number {
    this.spend(knownSteps)
    const key = (from * sides.length + sides.indexOf(before)) * codes + code
    return entryOf(one.steps, key, () => {
      const to = new Set<number>()
      for (const at of this.#settled(one.nfa, one.reached[from]!, before, next)) {
        const { set, next: others } = one.nfa.states[at]!
        if (set !== undefined && includes(set, code)) for (const other of others) to.add(other)
      }
      return this.#reached(one, to)
    })
  }

  /** The number of what can be reached from these states. */
  #reached({ nfa, reached, numbers }: Explored, from: Iterable<number>): number {
    const states = this.#reach(nfa, from)
    return entryOf(numbers, states.join(), () => reached.push(states) - 1)
  }

  /** The states with those behind assertions that hold here. */
  #settled(nfa: Nfa, set: Reached, before: Side, after: Side): Reached {
    return this.#hasAssertions ? this.#reach(nfa, set, (one) => holds(one, before, after)) : set
  }

  /** The states from which something is taken or asserted, and 0 where a text may end; sorted. */
  #reach(
    { states }: Nfa,
    from: Iterable<number>,
    passes: (assertion: Assertion) => boolean = () => false,
  ): Reached {
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
