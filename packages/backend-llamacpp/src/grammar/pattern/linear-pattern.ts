import type { AST } from '@eslint-community/regexpp'
import { includes } from './characters/code-point-set.js'
import { charactersOf, wordCharacters } from './characters/pattern-characters.js'
import { type Assertion, assertionOf } from './nfa.js'
import { parsePattern, PatternProblem } from './parse-pattern.js'
import { type PatternState, PatternStates } from './pattern-states.js'
import type { Spend } from '../schema/schema-budget.js'

/** What must follow a place, or must not: a way from the first state to the last one. */
interface Ahead {
  readonly start: number
  readonly end: number
  readonly isNegated: boolean
}

/** A state takes a character, holds at a place, or (with neither) is left at once. */
interface Label {
  readonly takes?: (code: number) => boolean
  readonly assertion?: Assertion
  readonly ahead?: Ahead
}

/**
 * A regular expression that takes time linear in the text, but for look-ahead: all ways to match are
 * followed at once (Thompson, 1968). `RegExp` tries one after the other, which
 * takes minutes for `^(a|a|aa)+$` on 50 characters.
 */
export class LinearPattern {
  readonly #states: PatternStates<Label>
  readonly #start: number

  /** @throws PatternProblem if it is not a regular expression or needs more than an automaton */
  constructor(
    pattern: string,
    private readonly spend: Spend,
  ) {
    this.#states = new PatternStates<Label>(
      {},
      (element, next) => this.#element(element, next),
      spend,
      'beside enum or const ',
    )
    this.#start = this.#choice(parsePattern(pattern, spend).alternatives, 0)
  }

  /** Whether it matches anywhere in a text. */
  test(text: string): boolean {
    this.spend(1 + (text.length >> 3))
    const codes = Array.from(text, (character) => character.codePointAt(0) ?? 0)
    return new Search(this.#states.all, codes, this.spend).finds(this.#start)
  }

  #choice(alternatives: readonly AST.Alternative[], next: number): number {
    const ways = alternatives.map(({ elements }) => this.#states.sequence(elements, next))
    return ways.length === 1 ? (ways[0] ?? next) : this.#states.fork(ways)
  }

  /** The state that matches an element and leads on to `next`. */
  #element(element: AST.Element, next: number): number {
    switch (element.type) {
      case 'Character':
      case 'CharacterSet':
      case 'CharacterClass':
        return this.#states.add({ takes: this.#takerOf(element) }, [next])
      case 'Group':
        if (element.modifiers) break
        return this.#choice(element.alternatives, next)
      case 'CapturingGroup':
        return this.#choice(element.alternatives, next)
      case 'Quantifier':
        return this.#states.repeat(element, next)
      case 'Assertion': {
        if (element.kind === 'lookahead') {
          const end = this.#states.add({ takes: () => false }, [])
          const start = this.#choice(element.alternatives, end)
          return this.#states.add({ ahead: { start, end, isNegated: element.negate } }, [next])
        }
        const assertion = assertionOf(element)
        if (assertion === undefined) break
        return this.#states.add({ assertion }, [next])
      }
      default:
    }
    throw new PatternProblem(`${element.raw} is not supported`)
  }

  #takerOf(
    element: AST.Character | AST.CharacterSet | AST.CharacterClass,
  ): (code: number) => boolean {
    const set = charactersOf(element, this.spend)
    if (set === undefined) throw new PatternProblem(`${element.raw} is not supported`)
    return (code) => includes(set, code)
  }
}

/** Follows the states of a pattern through one text. */
class Search {
  /** What is ahead of a place, by state and place. */
  readonly #known = new Map<number, boolean>()

  constructor(
    private readonly states: readonly PatternState<Label>[],
    private readonly codes: readonly number[],
    private readonly spend: Spend,
  ) {}

  /** Whether there is a way from a state to state 0, from anywhere in the text on. */
  finds(start: number): boolean {
    return this.#leads(start, 0, 0, true)
  }

  #leads(start: number, end: number, from: number, fromAnywhere: boolean): boolean {
    let current = new Set([start])
    for (let at = from; at <= this.codes.length && current.size > 0; at++) {
      this.spend(1 + this.#reach(current, at))
      if (current.has(end)) return true
      const code = this.codes[at]
      if (code === undefined) break
      const after = new Set<number>(fromAnywhere ? [start] : [])
      for (const state of current) {
        const { takes, next } = this.states[state]!
        if (takes?.(code) === true) for (const one of next) after.add(one)
      }
      current = after
    }
    return false
  }

  /** Adds the states that can be reached without a character, and returns how many there are. */
  #reach(states: Set<number>, at: number): number {
    // Iterating a Set includes elements added during the iteration.
    for (const state of states) {
      const { takes, next } = this.states[state]!
      if (takes !== undefined || !this.#holds(state, at)) continue
      for (const one of next) states.add(one)
    }
    return states.size
  }

  #holds(state: number, at: number): boolean {
    const { assertion, ahead } = this.states[state]!
    if (assertion !== undefined) return this.#isSo(assertion, at)
    if (ahead === undefined) return true
    const key = state * (this.codes.length + 1) + at
    const before = this.#known.get(key)
    if (before !== undefined) return before
    const holds = this.#leads(ahead.start, ahead.end, at, false) !== ahead.isNegated
    this.#known.set(key, holds)
    return holds
  }

  #isSo(assertion: Assertion, at: number): boolean {
    if (assertion === 'start') return at === 0
    if (assertion === 'end') return at === this.codes.length
    const isWord = (index: number) => includes(wordCharacters, this.codes[index] ?? -1)
    return (isWord(at - 1) !== isWord(at)) === (assertion === 'word')
  }
}
