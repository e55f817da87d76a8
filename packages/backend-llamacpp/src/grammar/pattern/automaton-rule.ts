import { type GbnfWriter } from '../gbnf/gbnf-writer.js'
import { Automata, type Reading } from './automata.js'
import { characterRule } from './character-rule.js'
import { type CodePointSet, union } from './characters/code-point-set.js'
import { PatternProblem } from './parse-pattern.js'
import type { Lengths } from './pattern-rule.js'

const mostStates = 2000
/** Sets of characters with longer texts are rules of their own. */
const shortSet = 100
/** Characters that are counted where a pattern may go on for longer. */
const longest = 100

/** What {@link automatonRule} is made with. */
export interface AutomatonOptions {
  readonly lengths: Lengths
  /** One character of a set as GBNF, undefined where there is none; default: of a JSON string. */
  readonly write?: (set: CodePointSet) => string | undefined
  /** Called with the number of steps before they are done. */
  readonly spend: (steps: number) => void
}

/** A state of all automata together: it has read the same text in each. */
interface State {
  readonly reading: Reading
  readonly length: number
  readonly isEnd: boolean
  readonly next: Map<string, { readonly characters: CodePointSet[]; readonly state: State }>
  /** Whether an end can be reached. */
  isAlive: boolean
}

/**
 * The inside of the JSON strings that match several patterns at once, with look-ahead where a pattern
 * begins, and have such a length, as GBNF: one rule for each state of the automaton that follows all of
 * them. Undefined when no string does. Strings may be shorter than a large maximum.
 *
 * @throws PatternProblem
 */
export function automatonRule(
  writer: GbnfWriter,
  patterns: readonly string[],
  { lengths: { min, max }, write: writeSet = characterRule, spend }: AutomatonOptions,
): string | undefined {
  const automata = new Automata(patterns)
  const counts = min > 0 || max < Infinity
  const most = counts ? Math.min(max, Math.max(min, longest)) : Infinity
  const { start, states } = explore(automata, { min, max: most }, spend)
  markAlive(states, writeSet)
  return start.isAlive ? write(writer, states, writeSet) : undefined
}

function explore(
  automata: Automata,
  lengths: Lengths,
  spend: (steps: number) => void,
): { readonly start: State; readonly states: readonly State[] } {
  const classes = automata.classes()
  const { min, max } = lengths
  const known = new Map<string, State>()
  const states: State[] = []
  const stateOf = (reading: Reading, length: number): State => {
    const key = `${length};${reading.key}`
    const before = known.get(key)
    if (before !== undefined) return before
    if (states.length === mostStates) {
      throw new PatternProblem(`together with what else is said it needs over ${mostStates} states`)
    }
    const isEnd = length >= min && automata.isEnd(reading)
    const state: State = { reading, length, isEnd, next: new Map(), isAlive: isEnd }
    known.set(key, state)
    states.push(state)
    return state
  }
  const start = stateOf(automata.start, 0)
  // grows while it is read
  for (const state of states) {
    if (state.length >= max) continue
    const length = max === Infinity ? Math.min(state.length + 1, min) : state.length + 1
    for (const { characters, sample } of classes) {
      spend(automata.cost(state.reading))
      const reading = automata.after(state.reading, sample)
      if (automata.isDead(reading)) continue
      const edge = state.next.get(reading.key)
      if (edge === undefined) {
        state.next.set(reading.key, { characters: [characters], state: stateOf(reading, length) })
      } else edge.characters.push(characters)
    }
  }
  return { start, states }
}

type WriteSet = NonNullable<AutomatonOptions['write']>

function markAlive(states: readonly State[], writeSet: WriteSet): void {
  let hasChanged = true
  while (hasChanged) {
    hasChanged = false
    for (const state of states.toReversed()) {
      if (state.isAlive) continue
      for (const { state: next, characters } of state.next.values()) {
        if (!next.isAlive || writeSet(union(characters.flat())) === undefined) continue
        state.isAlive = true
        hasChanged = true
        break
      }
    }
  }
}

function write(writer: GbnfWriter, states: readonly State[], writeSet: WriteSet): string {
  const alive = states.filter(({ isAlive }) => isAlive)
  let number = 0
  while (writer.has(`p${number}x0`)) number++
  const names = new Map(alive.map((state, index) => [state, `p${number}x${index}`]))
  for (const state of alive) {
    const edges = [...state.next.values()].flatMap(({ characters, state: next }) => {
      const name = names.get(next)
      const text = writeSet(union(characters.flat()))
      if (name === undefined || text === undefined) return []
      return [`${text.length > shortSet ? writer.rule(text) : text} ${name}`]
    })
    writer.define(names.get(state)!, [...edges, ...(state.isEnd ? ['""'] : [])].join(' | '))
  }
  return names.get(states[0]!)!
}
