import { entryOf } from '@cllm/core/defined'
import { type CodePointSet, includes, wordCharacters } from './code-point-set.js'
import { type Assertion, automataOf, holds, type Nfa, type Side, sideOf } from './nfa.js'
import type { Spend } from '../refuse.js'

/** The states of all automata after reading a text. */
export interface Reading {
  /** For each automaton, the number of the {@link Reached} states in it. */
  readonly reached: readonly number[]
  /** Equal for readings that continue alike. */
  readonly key: string
  /** The kind of character before the next one. */
  readonly before: Side
}

/** Characters that no automaton distinguishes. */
interface CharacterClass {
  readonly characters: CodePointSet
  /** One of them. */
  readonly sample: number
}

/** The states of an automaton that a text reaches, sorted. */
type Reached = Uint32Array

/** An automaton with the sets of states that texts have reached, and a cache of the steps between them. */
interface Explored {
  readonly nfa: Nfa
  readonly reached: Reached[]
  readonly numbers: Map<string, number>
  /** The number of the next set, by a set's number, the character, and the side before it, combined in one number. */
  readonly steps: Map<number, number>
}

/** Steps of the budget to look up a cached step. */
const knownSteps = 1
const codes = 0x110000
const sides: readonly Side[] = ['word', 'other', 'none']

/** The automata of several patterns, which read a text at the same time. */
export class Automata {
  readonly #all: readonly Explored[]
  readonly #hasAssertions: boolean
  /** The reading of an empty text. */
  readonly start: Reading

  /** @throws PatternProblem for constructs that no automaton can follow */
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

  /** Whether no text that continues this one can match. */
  isDead({ reached }: Reading): boolean {
    return this.#all.some(
      ({ nfa, reached: all }, nth) => !nfa.isNegated && all[reached[nth]!]!.length === 0,
    )
  }

  /** All characters, grouped so that no automaton distinguishes those of a group. */
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
      const to: number[] = []
      // states in a row often have the same set
      let [last, isIn]: [CodePointSet | undefined, boolean] = [undefined, false]
      for (const at of this.#settled(one.nfa, one.reached[from]!, before, next)) {
        const { set, next: others } = one.nfa.states[at]!
        if (set !== last) isIn = set !== undefined && includes(set, code)
        last = set
        if (isIn) to.push(...others)
      }
      return this.#reached(one, to)
    })
  }

  /** The number of the set of states that can be reached from these states. */
  #reached({ nfa, reached, numbers }: Explored, from: Iterable<number>): number {
    const states = this.#reach(nfa, from)
    // as bytes, since writing thousands of numbers as digits takes longer than finding them
    const key = Buffer.from(states.buffer).toString('latin1')
    return entryOf(numbers, key, () => reached.push(states) - 1)
  }

  /** The states of a set, with those behind assertions that are true here. */
  #settled(nfa: Nfa, set: Reached, before: Side, after: Side): Reached {
    return this.#hasAssertions ? this.#reach(nfa, set, (one) => holds(one, before, after)) : set
  }

  /** The reachable states that read a character or assert something, and 0 if a text may end here; sorted. */
  #reach(
    { states }: Nfa,
    from: Iterable<number>,
    passes: (assertion: Assertion) => boolean = () => false,
  ): Reached {
    const reached = new Set(from)
    const kept: number[] = []
    for (const at of reached) {
      const { set, assertion, next } = states[at]!
      if (at === 0 || set !== undefined || assertion !== undefined) kept.push(at)
      if (set !== undefined || (assertion !== undefined && !passes(assertion))) continue
      for (const one of next) reached.add(one)
    }
    this.spend(1 + (reached.size >> 1))
    return Uint32Array.from(kept).sort()
  }
}
