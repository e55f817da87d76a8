import { entryOf } from '@cllm/core/defined'
import { characterRule, type GbnfWriter, oneOf } from '../gbnf/gbnf-writer.js'
import { Automata, type Reading } from './automata.js'
import { type CodePointSet, union } from './code-point-set.js'
import { parsePattern, PatternProblem, unlessProblem } from './parse-pattern.js'
import type { Amount } from '../gbnf/gbnf-reader.js'
import { refused, type SchemaBudget, type Spend } from '../refuse.js'

const mostStates = 2000
/** Steps to make and write a state, and as many for each edge. */
const stateSteps = 3
/** Sets of characters with longer texts become separate rules. */
const shortSet = 100
/** The most characters to count if a pattern allows longer texts. */
const longest = 100
/** The most characters to count if that takes too many states. */
const shorter = 70

/** Options of {@link automatonRule}. */
interface AutomatonOptions {
  readonly lengths: Amount
  /** Writes one character of a set as GBNF; undefined: none can be written; default: for JSON strings. */
  readonly write?: (set: CodePointSet) => string | undefined
  readonly spend: Spend
}

/** Characters, as GBNF, that lead from one reading to another. */
interface Move {
  readonly text: string
  readonly reading: Reading
}

/** A combined state of all automata, which have read the same text. */
interface State {
  readonly reading: Reading
  readonly length: number
  readonly isEnd: boolean
  readonly next: { readonly text: string; readonly state: State }[]
  /** Whether an end can be reached from here. */
  isAlive: boolean
}

/**
 * The content of the JSON strings that match all of several patterns and have a length within `lengths`, as GBNF: one
 * rule for each state of the combined automaton. Patterns may begin with look-ahead. Undefined if no string matches. If
 * the maximum length is large, the rule may only allow shorter strings.
 *
 * @throws PatternProblem
 */
export function automatonRule(
  writer: GbnfWriter,
  patterns: readonly string[],
  { lengths: { min, max }, write: writeSet = characterRule, spend }: AutomatonOptions,
): string | undefined {
  const automata = new Automata(patterns, spend)
  const counts = min > 0 || max < Infinity
  const limit = (count: number) => (counts ? Math.min(max, Math.max(min, count)) : Infinity)
  const upTo = (max: number) => explore(automata, writeSet, { min, max }, spend)
  const states = unlessProblem(
    () => upTo(limit(longest)),
    (problem) => {
      if (limit(shorter) === limit(longest)) throw problem
      return upTo(limit(shorter))
    },
  )
  markAlive(states)
  return states[0]!.isAlive ? write(writer, states) : undefined
}

function explore(
  automata: Automata,
  writeSet: NonNullable<AutomatonOptions['write']>,
  { min, max }: Amount,
  spend: Spend,
): readonly State[] {
  const classes = automata.classes()
  /** The texts by classes: many moves have the same characters, which may be hundreds of ranges. */
  const texts = new Map<string, string | undefined>()
  /** Undefined: none of these classes can be written. */
  const textOf = (own: readonly number[]) =>
    entryOf(texts, own.join(), () => {
      const ranges = own.flatMap((number) => classes[number]!.characters)
      spend(2 * ranges.length)
      return writeSet(union(ranges))
    })
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
  stateOf(automata.start, 0)
  const movesFrom = (from: Reading): readonly Move[] => {
    const moves = new Map<string, { readonly taken: number[]; readonly reading: Reading }>()
    for (const [number, { sample }] of classes.entries()) {
      const reading = automata.after(from, sample)
      if (automata.isDead(reading)) continue
      entryOf(moves, reading.key, () => ({ taken: [], reading })).taken.push(number)
    }
    return [...moves.values()].flatMap(({ taken, reading }) => {
      const text = textOf(taken)
      return text === undefined ? [] : [{ text, reading }]
    })
  }
  /** The moves by reading, as the same reading comes with several lengths. */
  const moves = new Map<string, readonly Move[]>()
  // the list grows during the loop
  for (const state of states) {
    if (state.length >= max) continue
    const length = max === Infinity ? Math.min(state.length + 1, min) : state.length + 1
    const own = entryOf(moves, state.reading.key, () => movesFrom(state.reading))
    spend(stateSteps * (1 + own.length))
    for (const { text, reading } of own) state.next.push({ text, state: stateOf(reading, length) })
  }
  return states
}

function markAlive(states: readonly State[]): void {
  const before = new Map<State, State[]>()
  for (const state of states) {
    for (const edge of state.next) entryOf(before, edge.state, () => []).push(state)
  }
  const alive = states.filter(({ isAlive }) => isAlive)
  // the list grows during the loop
  for (const state of alive) {
    for (const one of before.get(state) ?? []) {
      if (one.isAlive) continue
      one.isAlive = true
      alive.push(one)
    }
  }
}

function write(writer: GbnfWriter, states: readonly State[]): string {
  const alive = states.filter(({ isAlive }) => isAlive)
  let number = 0
  while (writer.has(`p${number}x0`)) number++
  const names = new Map(alive.map((state, index) => [state, `p${number}x${index}`]))
  for (const state of alive) {
    const edges = state.next.flatMap(({ state: to, text }) => {
      const name = names.get(to)
      if (name === undefined) return []
      return [`${text.length > shortSet ? writer.rule(text) : text} ${name}`]
    })
    writer.define(names.get(state)!, [...edges, ...(state.isEnd ? ['""'] : [])].join(' | '))
  }
  return names.get(states[0]!)!
}

/**
 * Writes the texts that a regular expression matches as a whole, as a part of a grammar.
 * @throws CllmError `invalid_constraint` for constructs that no automaton can follow
 */
export function regexRule(writer: GbnfWriter, pattern: string, budget: SchemaBudget): string {
  const make = () => {
    // checked without the group first, as `a)|(?:b` is only valid inside a group
    parsePattern(pattern)
    const rule = automatonRule(writer, [`^(?:${pattern})$`], {
      lengths: { min: 0, max: Infinity },
      write: (set) => (set.length === 0 ? undefined : oneOf(set)),
      spend: budget.at('#'),
    })
    if (rule === undefined) throw new PatternProblem('no text matches it')
    return rule
  }
  return unlessProblem(make, ({ message }) => {
    throw refused('The regular expression cannot be kept to', message)
  })
}
