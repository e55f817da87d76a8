import type { AST } from '@eslint-community/regexpp'
import type { CodePointSet } from './characters/code-point-set.js'
import { charactersOf } from './characters/pattern-characters.js'
import { parsePattern, PatternProblem } from './parse-pattern.js'
import { type PatternState, PatternStates } from './pattern-states.js'
import type { Spend } from '../schema/schema-budget.js'

const anything: CodePointSet = [[0, 0x10ffff]]

/** What must be so at a place in a text. */
export type Assertion = 'start' | 'end' | 'word' | 'no-word'

/** What a state takes, a character of a set, or asserts; without either it is left at once. */
interface Label {
  readonly set?: CodePointSet
  readonly assertion?: Assertion
}

/** A state of an {@link Nfa}. */
export type NfaState = PatternState<Label>

/** What texts match as a whole; the last state is state 0. */
export interface Nfa {
  readonly states: readonly NfaState[]
  readonly start: number
  /** Whether the texts are those that do not match. */
  readonly isNegated: boolean
}

/**
 * The automata whose texts match a pattern: one for the pattern, and one for each look-ahead that it
 * begins with. As JSON schema says, a pattern matches anywhere in a text unless it has anchors.
 * @throws PatternProblem
 */
export function automataOf(pattern: string, spend: Spend): Nfa[] {
  const { alternatives } = parsePattern(pattern, spend)
  const ahead: AST.LookaheadAssertion[] = []
  const bodies = alternatives.map(({ elements }) => {
    const [first, ...others] = elements
    if (!isAnchor(first, 'start')) return elements
    const body = others.slice(countAhead(others))
    ahead.push(...(others.slice(0, countAhead(others)) as AST.LookaheadAssertion[]))
    return [first!, ...body]
  })
  if (ahead.length > 0 && alternatives.length > 1) {
    throw new PatternProblem('look-ahead in one of several alternatives is not supported')
  }
  return [
    new NfaMaker(spend).make(bodies, false),
    ...ahead.map(({ alternatives: inner, negate }) =>
      new NfaMaker(spend).make(
        // it looks from the beginning
        inner.map(({ elements }) =>
          isAnchor(elements[0], 'start') ? elements.slice(1) : elements,
        ),
        negate,
        true,
      ),
    ),
  ]
}

const countAhead = (elements: readonly AST.Element[]): number => {
  const index = elements.findIndex((one) => one.type !== 'Assertion' || one.kind !== 'lookahead')
  return index < 0 ? elements.length : index
}

const isAnchor = (element: AST.Element | undefined, kind: 'start' | 'end'): boolean =>
  element?.type === 'Assertion' && element.kind === kind

/** What an assertion asks for; undefined for look-ahead and look-behind. */
export function assertionOf(element: AST.Assertion): Assertion | undefined {
  if (element.kind === 'start' || element.kind === 'end') return element.kind
  if (element.kind === 'word') return element.negate ? 'no-word' : 'word'
  return undefined
}

class NfaMaker {
  readonly #states: PatternStates<Label>

  constructor(private readonly spend: Spend) {
    this.#states = new PatternStates({}, (element, next) => this.#element(element, next), spend)
  }

  make(bodies: readonly (readonly AST.Element[])[], isNegated: boolean, fromStart = false): Nfa {
    const ways = bodies.map((elements) => {
      const starts = fromStart || isAnchor(elements[0], 'start')
      const ends = isAnchor(elements.at(-1), 'end')
      const inner = elements.slice(
        isAnchor(elements[0], 'start') ? 1 : 0,
        ends ? -1 : elements.length,
      )
      const start = this.#states.sequence(inner, ends ? 0 : this.#skip(0))
      return starts ? start : this.#skip(start)
    })
    const start = this.#states.fork(ways)
    return { states: this.#states.all, start, isNegated }
  }

  /** Any text, then `next`. */
  #skip(next: number): number {
    const loop = this.#states.fork([next])
    this.#states.all[loop]!.next.push(this.#states.add({ set: anything }, [loop]))
    return loop
  }

  #element(element: AST.Element, next: number): number {
    switch (element.type) {
      case 'Character':
      case 'CharacterSet':
      case 'CharacterClass': {
        const set = charactersOf(element, this.spend)
        if (set === undefined) break
        return this.#states.add({ set }, [next])
      }
      case 'Group':
      case 'CapturingGroup':
        if (element.type === 'Group' && element.modifiers) break
        return this.#states.fork(
          element.alternatives.map(({ elements }) => this.#states.sequence(elements, next)),
        )
      case 'Quantifier':
        return this.#states.repeat(element, next)
      case 'Assertion': {
        const assertion = assertionOf(element)
        if (assertion === undefined) break
        return this.#states.add({ assertion }, [next])
      }
      default:
    }
    throw new PatternProblem(`${shown(element.raw)} is not supported`)
  }
}

const shown = (raw: string): string => (raw.length > 60 ? `${raw.slice(0, 60)}…` : raw)
