import type { AST } from '@eslint-community/regexpp'
import { includes } from './characters/code-point-set.js'
import { type Assertion, assertionOf } from './nfa.js'
import { charactersOf, wordCharacters } from './characters/pattern-characters.js'
import { PatternProblem, parsePattern } from './parse-pattern.js'
import { PatternStates } from './pattern-states.js'

/** A state takes a character, holds at a place, or (with neither) is left at once. */
interface Label {
  readonly takes?: (code: number) => boolean
  readonly assertion?: Assertion
}

/**
 * A regular expression that takes time linear in the text: all ways to match are followed at once
 * (Thompson, 1968). `RegExp` tries one after the other, which
 * takes minutes for `^(a|a|aa)+$` on 50 characters.
 */
export class LinearPattern {
  readonly #states = new PatternStates<Label>(
    {},
    (element, next) => this.#element(element, next),
    'beside enum or const ',
  )
  readonly #start: number

  /** @throws PatternProblem if it is not a regular expression or needs more than an automaton */
  constructor(pattern: string) {
    this.#start = this.#choice(parsePattern(pattern).alternatives, 0)
  }

  /**
   * Whether it matches anywhere in a text.
   * @param spend - called with the number of steps before they are done
   */
  test(text: string, spend: (steps: number) => void): boolean {
    const codes = Array.from(text, (character) => character.codePointAt(0) ?? 0)
    let current = new Set<number>()
    for (let at = 0; at <= codes.length; at++) {
      current.add(this.#start)
      spend(1 + this.#reach(current, codes, at))
      if (current.has(0)) return true
      const code = codes[at]
      if (code === undefined) break
      const after = new Set<number>()
      for (const state of current) {
        const { takes, next } = this.#states.all[state]!
        if (takes?.(code) === true) for (const one of next) after.add(one)
      }
      current = after
    }
    return false
  }

  /** Adds the states that can be reached without a character, and returns how many there are. */
  #reach(states: Set<number>, codes: readonly number[], at: number): number {
    // Iterating a Set includes elements added during the iteration.
    for (const state of states) {
      const { takes, assertion, next } = this.#states.all[state]!
      if (takes !== undefined || (assertion !== undefined && !holds(assertion, codes, at))) continue
      for (const one of next) states.add(one)
    }
    return states.size
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
        return this.#states.add({ takes: takerOf(element) }, [next])
      case 'Group':
        if (element.modifiers) break
        return this.#choice(element.alternatives, next)
      case 'CapturingGroup':
        return this.#choice(element.alternatives, next)
      case 'Quantifier':
        return this.#states.repeat(element, next)
      case 'Assertion': {
        const assertion = assertionOf(element)
        if (assertion === undefined) break
        return this.#states.add({ assertion }, [next])
      }
      default:
    }
    throw new PatternProblem(`${element.raw} is not supported`)
  }
}

function takerOf(
  element: AST.Character | AST.CharacterSet | AST.CharacterClass,
): (code: number) => boolean {
  const set = charactersOf(element)
  if (set === undefined) throw new PatternProblem(`${element.raw} is not supported`)
  return (code) => includes(set, code)
}

function holds(assertion: Assertion, codes: readonly number[], at: number): boolean {
  if (assertion === 'start') return at === 0
  if (assertion === 'end') return at === codes.length
  const isWord = (index: number) => includes(wordCharacters, codes[index] ?? -1)
  return (isWord(at - 1) !== isWord(at)) === (assertion === 'word')
}
