import { entryOf } from '@cllm/core'
import { includes } from './characters/code-point-set.js'
import { holds, type NfaState, NfaStates, sideOf } from './nfa.js'
import { parsePattern } from './parse-pattern.js'
import type { Spend } from '../schema/schema-budget.js'

/**
 * A regular expression that takes time linear in the text, but for look-ahead: all ways to match are
 * followed at once (Thompson, 1968). `RegExp` tries one after the other, which
 * takes minutes for `^(a|a|aa)+$` on 50 characters.
 */
export class LinearPattern {
  readonly #states: NfaStates
  readonly #start: number

  /** @throws PatternProblem if it is not a regular expression or needs more than an automaton */
  constructor(
    pattern: string,
    private readonly spend: Spend,
  ) {
    this.#states = new NfaStates(spend, true, 'beside enum or const ')
    this.#start = this.#states.choice(parsePattern(pattern, spend).alternatives, 0)
  }

  /** Whether it matches anywhere in a text. */
  test(text: string): boolean {
    this.spend(1 + (text.length >> 3))
    const codes = Array.from(text, (character) => character.codePointAt(0) ?? 0)
    return new Search(this.#states.all, codes, this.spend).finds(this.#start)
  }
}

/** Follows the states of a pattern through one text. */
class Search {
  /** What is ahead of a place, by state and place. */
  readonly #known = new Map<number, boolean>()

  constructor(
    private readonly states: readonly NfaState[],
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
        const { set, next } = this.states[state]!
        if (set !== undefined && includes(set, code)) for (const one of next) after.add(one)
      }
      current = after
    }
    return false
  }

  /** Adds the states that can be reached without a character, and returns how many there are. */
  #reach(states: Set<number>, at: number): number {
    // Iterating a Set includes elements added during the iteration.
    for (const state of states) {
      const { set, next } = this.states[state]!
      if (set !== undefined || !this.#holds(state, at)) continue
      for (const one of next) states.add(one)
    }
    return states.size
  }

  #holds(state: number, at: number): boolean {
    const { assertion, ahead } = this.states[state]!
    const { codes } = this
    if (assertion !== undefined) return holds(assertion, sideOf(codes[at - 1]), sideOf(codes[at]))
    if (ahead === undefined) return true
    const key = state * (codes.length + 1) + at
    const leads = () => this.#leads(ahead.start, ahead.end, at, false)
    return entryOf(this.#known, key, () => leads() !== ahead.isNegated)
  }
}
