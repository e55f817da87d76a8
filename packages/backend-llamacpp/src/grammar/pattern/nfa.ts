import type { AST } from '@eslint-community/regexpp'
import { entryOf } from '@cllm/core/defined'
import { type CodePointSet, includes, wordCharacters } from './code-point-set.js'
import { charactersOf } from './pattern-characters.js'
import { parsePattern, PatternProblem } from './parse-pattern.js'
import type { Spend } from '../refuse.js'

const anything: CodePointSet = [[0, 0x10ffff]]
const mostStates = 20_000

/** A condition on a place in a text. */
export type Assertion = 'start' | 'end' | 'word' | 'no-word'

/** The character on one side of a place in a text: one of a word, another one, or none. */
export type Side = 'word' | 'other' | 'none'

export function sideOf(code: number | undefined): Side {
  if (code === undefined) return 'none'
  return includes(wordCharacters, code) ? 'word' : 'other'
}

/** Whether an assertion is true between two sides. */
export function holds(assertion: Assertion, before: Side, after: Side): boolean {
  if (assertion === 'start') return before === 'none'
  if (assertion === 'end') return after === 'none'
  return ((before === 'word') !== (after === 'word')) === (assertion === 'word')
}

/** Look-ahead: the text behind a place must, or must not, lead from the first state to the last one. */
interface Ahead {
  readonly start: number
  readonly end: number
  readonly isNegated: boolean
}

/** What a state reads (a character of a set) or demands; without any of these, it leads on at once. */
interface Label {
  readonly set?: CodePointSet
  readonly assertion?: Assertion
  readonly ahead?: Ahead
}

/** A state of an {@link Nfa}, and the states that follow. */
interface NfaState extends Label {
  readonly next: number[]
}

/** A nondeterministic automaton that matches whole texts; its last state is state 0. */
export interface Nfa {
  readonly states: readonly NfaState[]
  readonly start: number
  /** Whether it stands for the texts that do not match. */
  readonly isNegated: boolean
}

/**
 * The automata that together match a pattern's texts: one for the pattern, and one for each look-ahead at its
 * beginning. As in JSON schema, a pattern matches anywhere in a text unless it has anchors.
 * @throws PatternProblem
 */
export function automataOf(pattern: string, spend: Spend): Nfa[] {
  const { alternatives } = parsePattern(pattern, spend)
  const ahead: AST.LookaheadAssertion[] = []
  const bodies = alternatives.map(({ elements }) => {
    if (!isAnchor(elements[0], 'start')) return elements
    let end = 1
    for (let one = elements[end]; isLookahead(one); one = elements[++end]) ahead.push(one)
    return [elements[0]!, ...elements.slice(end)]
  })
  if (ahead.length > 0 && alternatives.length > 1) {
    throw new PatternProblem('look-ahead in one of several alternatives is not supported')
  }
  return [
    wholeNfa(spend, bodies, false),
    ...ahead.map(({ alternatives: inner, negate }) => {
      const ways = inner.map(({ elements }) => elements)
      // this look-ahead is only at the beginning of the text
      return wholeNfa(spend, ways, negate, true)
    }),
  ]
}

/** Whether an element is a look-ahead, negated or not. */
export const isLookahead = (element: AST.Element | undefined): element is AST.LookaheadAssertion =>
  element?.type === 'Assertion' && element.kind === 'lookahead'

const isAnchor = (element: AST.Element | undefined, kind: 'start' | 'end'): boolean =>
  element?.type === 'Assertion' && element.kind === kind

/** The elements of an alternative between its anchors, and whether it begins and ends with an anchor. */
export function withoutAnchors(elements: readonly AST.Element[]) {
  const starts = isAnchor(elements[0], 'start')
  const ends = isAnchor(elements.at(-1), 'end')
  return { elements: elements.slice(starts ? 1 : 0, ends ? -1 : undefined), starts, ends }
}

function wholeNfa(
  spend: Spend,
  bodies: readonly (readonly AST.Element[])[],
  isNegated: boolean,
  fromStart = false,
): Nfa {
  const states = new NfaStates(spend)
  /** Adds states for any text, then `next`. */
  const skip = (next: number): number => {
    const loop = states.add({}, [next])
    states.all[loop]!.next.push(states.add({ set: anything }, [loop]))
    return loop
  }
  const ways = bodies.map((body) => {
    const { elements, starts, ends } = withoutAnchors(body)
    const start = states.sequence(elements, ends ? 0 : skip(0))
    return starts || fromStart ? start : skip(start)
  })
  return { states: states.all, start: states.add({}, ways), isNegated }
}

/**
 * The states of an automaton, built from its end to its beginning (Thompson, "Regular expression search
 * algorithm", 1968). State 0 is the last one.
 */
class NfaStates {
  readonly all: NfaState[] = [{ next: [] }]

  /**
   * @param spend - called for each state, each way out of one, and each repetition of an element, even if that adds no
   *   state
   * @param looksAhead - whether look-ahead is supported anywhere
   * @param where - the beginning of problems' messages
   */
  constructor(
    private readonly spend: Spend,
    private readonly looksAhead = false,
    private readonly where = '',
  ) {}

  /** @throws PatternProblem if there are too many states */
  add(label: Label, next: readonly number[]): number {
    if (this.all.length === mostStates) {
      throw new PatternProblem(`${this.where}it needs more than ${mostStates} states`)
    }
    this.spend(1 + next.length)
    // elements that may be empty can lead to the same state in several ways
    return this.all.push({ ...label, next: next.length > 1 ? [...new Set(next)] : [...next] }) - 1
  }

  /** Adds states for one of several alternatives, then `next`. */
  choice(alternatives: readonly AST.Alternative[], next: number): number {
    const ways = alternatives.map(({ elements }) => this.sequence(elements, next))
    return ways.length === 1 ? ways[0]! : this.add({}, ways)
  }

  /** Adds states for elements one after the other, then `next`. */
  sequence(elements: readonly AST.Element[], next: number): number {
    return elements.reduceRight((after, element) => this.#before(element, after), next)
  }

  /** Adds states for a quantifier's element as often as it says, then `next`. */
  #repeat({ element, min, max }: AST.Quantifier, next: number): number {
    let entry = next
    if (max === Infinity) {
      entry = this.add({}, [next])
      this.all[entry]!.next.push(this.#before(element, entry))
    } else {
      for (let nth = min; nth < max; nth++)
        entry = this.add({}, [next, this.#before(element, entry)])
    }
    for (let nth = 0; nth < min; nth++) entry = this.#before(element, entry)
    return entry
  }

  /** The state that matches an element and leads on to `next`. */
  #before(element: AST.Element, next: number): number {
    this.spend(1)
    const set = charactersOf(element, this.spend)
    if (set !== undefined) return this.add({ set }, [next])
    switch (element.type) {
      case 'Group':
      case 'CapturingGroup':
        if (element.type === 'Group' && element.modifiers) break
        return this.choice(element.alternatives, next)
      case 'Quantifier':
        return this.#repeat(element, next)
      case 'Assertion': {
        if (element.kind === 'lookbehind') break
        if (element.kind !== 'lookahead') {
          const isNot = element.kind === 'word' && element.negate
          return this.add({ assertion: isNot ? 'no-word' : element.kind }, [next])
        }
        if (!this.looksAhead) break
        const end = this.add({ set: [] }, [])
        const start = this.choice(element.alternatives, end)
        return this.add({ ahead: { start, end, isNegated: element.negate } }, [next])
      }
      default:
    }
    throw new PatternProblem(`${shown(element.raw)} is not supported`)
  }
}

const shown = (raw: string): string => (raw.length > 60 ? `${raw.slice(0, 60)}…` : raw)

/**
 * A regular expression that takes time linear in the text, except for look-ahead: it follows all ways to match at once
 * (Thompson, 1968). `RegExp` tries one after the other, which takes minutes for `^(a|a|aa)+$` on 50 characters.
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
  /** The results of look-ahead, by state and place in the text. */
  readonly #known = new Map<number, boolean>()

  constructor(
    private readonly states: readonly NfaState[],
    private readonly codes: readonly number[],
    private readonly spend: Spend,
  ) {}

  /** Whether some part of the text leads from a state to state 0. */
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

  /** Adds the states that can be reached without reading a character; returns the number of states. */
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
