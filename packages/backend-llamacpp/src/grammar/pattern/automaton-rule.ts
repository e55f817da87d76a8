import type { GbnfWriter } from '../gbnf/gbnf-writer.js'
import { Automata, type CharacterClass, type Reading } from './automata.js'
import { characterRule } from './character-rule.js'
import { type CodePointSet, union } from './characters/code-point-set.js'
import { PatternProblem } from './parse-pattern.js'
import type { Lengths } from './pattern-rule.js'
import type { Spend } from '../schema/schema-budget.js'

const mostStates = 2000
/** To make a state and write it, and the same for each edge. */
const stateSteps = 3
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

/** Classes of characters, by their numbers, that lead from a reading to another one. */
interface Move {
  readonly classes: number[]
  readonly reading: Reading
}

/** What leads from a state to another one. */
interface Edge {
  readonly classes: readonly number[]
  readonly state: State
}

/** A state of all automata together: it has read the same text in each. */
interface State {
  readonly reading: Reading
  readonly length: number
  readonly isEnd: boolean
  readonly next: Edge[]
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
  const { start, states } = explore(automata, classes, { min, max: most }, spend)
  markAlive(states, textOf)
  return start.isAlive ? write(writer, states, textOf) : undefined
}

function explore(
  automata: Automata,
  classes: readonly CharacterClass[],
  { min, max }: Lengths,
  spend: Spend,
): { readonly start: State; readonly states: readonly State[] } {
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
    const state: State = { reading, length, isEnd, next: [], isAlive: isEnd }
    known.set(key, state)
    states.push(state)
    return state
  }
  const start = stateOf(automata.start, 0)
  /** Readings come again with other lengths. */
  const moves = new Map<string, readonly Move[]>()
  // grows while it is read
  for (const state of states) {
    if (state.length >= max) continue
    const length = max === Infinity ? Math.min(state.length + 1, min) : state.length + 1
    const own = moves.get(state.reading.key) ?? movesFrom(state.reading, automata, classes)
    moves.set(state.reading.key, own)
    spend(stateSteps * (1 + own.length))
    for (const { classes: taken, reading } of own) {
      state.next.push({ classes: taken, state: stateOf(reading, length) })
    }
  }
  return { start, states }
}

function movesFrom(
  from: Reading,
  automata: Automata,
  classes: readonly CharacterClass[],
): readonly Move[] {
  const moves = new Map<string, Move>()
  for (const [number, { sample }] of classes.entries()) {
    const reading = automata.after(from, sample)
    if (automata.isDead(reading)) continue
    const move = moves.get(reading.key)
    if (move === undefined) moves.set(reading.key, { classes: [number], reading })
    else move.classes.push(number)
  }
  return [...moves.values()]
}

/** The characters of an edge as GBNF; undefined: none can be written. */
type TextOf = (edge: Edge) => string | undefined

/** Many edges have the same characters, which may be some hundred ranges. */
function edgeTexts(
  classes: readonly CharacterClass[],
  write: NonNullable<AutomatonOptions['write']>,
  spend: Spend,
): TextOf {
  const texts = new Map<string, string | undefined>()
  const textOf = (own: readonly number[]): string | undefined => {
    const key = own.join()
    if (texts.has(key)) return texts.get(key)
    const ranges = own.flatMap((number) => classes[number]!.characters)
    spend(2 * ranges.length)
    const text = write(union(ranges))
    texts.set(key, text)
    return text
  }
  const known = new Map<readonly number[], string | undefined>()
  return ({ classes: own }) => {
    if (!known.has(own)) known.set(own, textOf(own))
    return known.get(own)
  }
}

function markAlive(states: readonly State[], textOf: TextOf): void {
  const before = new Map<State, State[]>()
  for (const state of states) {
    for (const edge of state.next) {
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
    const edges = state.next.flatMap((edge) => {
      const name = names.get(edge.state)
      const text = textOf(edge)
      if (name === undefined || text === undefined) return []
      return [`${text.length > shortSet ? writer.rule(text) : text} ${name}`]
    })
    writer.define(names.get(state)!, [...edges, ...(state.isEnd ? ['""'] : [])].join(' | '))
  }
  return names.get(states[0]!)!
}
