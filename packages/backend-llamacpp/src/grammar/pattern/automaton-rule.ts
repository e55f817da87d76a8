import { type GbnfWriter } from '../gbnf/gbnf-writer.js'
import { Automata, type CharacterClass, type Reading } from './automata.js'
import { characterRule } from './character-rule.js'
import { type CodePointSet, union } from './characters/code-point-set.js'
import { PatternProblem } from './parse-pattern.js'
import type { Lengths } from './pattern-rule.js'
import type { Spend } from '../schema/schema-budget.js'

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
  readonly spend: Spend
}

/** What leads from a state to another one: classes of characters, by their numbers. */
interface Edge {
  readonly classes: number[]
  readonly state: State
}

/** A state of all automata together: it has read the same text in each. */
interface State {
  readonly reading: Reading
  readonly length: number
  readonly isEnd: boolean
  readonly next: Map<string, Edge>
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
  const automata = new Automata(patterns, spend)
  const classes = automata.classes()
  const textOf = edgeTexts(classes, writeSet, spend)
  const counts = min > 0 || max < Infinity
  const most = counts ? Math.min(max, Math.max(min, longest)) : Infinity
  const { start, states } = explore(automata, classes, { min, max: most })
  markAlive(states, textOf)
  return start.isAlive ? write(writer, states, textOf) : undefined
}

function explore(
  automata: Automata,
  classes: readonly CharacterClass[],
  lengths: Lengths,
): { readonly start: State; readonly states: readonly State[] } {
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
    for (const [number, { sample }] of classes.entries()) {
      const reading = automata.after(state.reading, sample)
      if (automata.isDead(reading)) continue
      const edge = state.next.get(reading.key)
      if (edge === undefined) {
        state.next.set(reading.key, { classes: [number], state: stateOf(reading, length) })
      } else edge.classes.push(number)
    }
  }
  return { start, states }
}

/** The characters of an edge as GBNF; undefined: none can be written. */
type TextOf = (edge: Edge) => string | undefined

/** Many edges have the same characters, which may be some hundred ranges. */
function edgeTexts(
  classes: readonly CharacterClass[],
  write: NonNullable<AutomatonOptions['write']>,
  spend: Spend,
): TextOf {
  const known = new Map<string, string | undefined>()
  return ({ classes: own }) => {
    const key = own.join()
    if (known.has(key)) return known.get(key)
    const ranges = own.flatMap((number) => classes[number]!.characters)
    spend(2 * ranges.length)
    const text = write(union(ranges))
    known.set(key, text)
    return text
  }
}

function markAlive(states: readonly State[], textOf: TextOf): void {
  const before = new Map<State, State[]>()
  for (const state of states) {
    for (const edge of state.next.values()) {
      if (textOf(edge) === undefined) continue
      const others = before.get(edge.state)
      if (others === undefined) before.set(edge.state, [state])
      else others.push(state)
    }
  }
  const alive = states.filter(({ isAlive }) => isAlive)
  // grows while it is read
  for (const state of alive) {
    for (const one of before.get(state) ?? []) {
      if (one.isAlive) continue
      one.isAlive = true
      alive.push(one)
    }
  }
}

function write(writer: GbnfWriter, states: readonly State[], textOf: TextOf): string {
  const alive = states.filter(({ isAlive }) => isAlive)
  let number = 0
  while (writer.has(`p${number}x0`)) number++
  const names = new Map(alive.map((state, index) => [state, `p${number}x${index}`]))
  for (const state of alive) {
    const edges = [...state.next.values()].flatMap((edge) => {
      const name = names.get(edge.state)
      const text = textOf(edge)
      if (name === undefined || text === undefined) return []
      return [`${text.length > shortSet ? writer.rule(text) : text} ${name}`]
    })
    writer.define(names.get(state)!, [...edges, ...(state.isEnd ? ['""'] : [])].join(' | '))
  }
  return names.get(states[0]!)!
}
