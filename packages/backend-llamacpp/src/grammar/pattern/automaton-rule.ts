import { type GbnfWriter } from '../gbnf/gbnf-writer.js'
import { characterRule } from './character-rule.js'
import { type CodePointSet, union } from './code-point-set.js'
import { automataOf, type Nfa } from './nfa.js'
import { PatternProblem } from './parse-pattern.js'
import type { Lengths } from './pattern-rule.js'

const mostStates = 2000
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
  readonly sets: readonly (readonly number[])[]
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
  const automata = patterns.flatMap((pattern) => automataOf(pattern))
  const counts = min > 0 || max < Infinity
  const most = counts ? Math.min(max, Math.max(min, longest)) : Infinity
  const { start, states } = explore(automata, { min, max: most }, spend)
  markAlive(states, writeSet)
  return start.isAlive ? write(writer, states, writeSet) : undefined
}

function explore(
  automata: readonly Nfa[],
  lengths: Lengths,
  spend: (steps: number) => void,
): { readonly start: State; readonly states: readonly State[] } {
  const classes = classesOf(automata)
  const { min, max } = lengths
  const known = new Map<string, State>()
  const states: State[] = []
  const stateOf = (sets: readonly (readonly number[])[], length: number): State => {
    const key = `${length};${sets.map((set) => set.join()).join(';')}`
    const before = known.get(key)
    if (before !== undefined) return before
    if (states.length === mostStates) {
      throw new PatternProblem(`together with what else is said it needs over ${mostStates} states`)
    }
    const fits = length >= min
    const isEnd = fits && sets.every((set, nth) => set.includes(0) !== automata[nth]!.isNegated)
    const state: State = { sets, length, isEnd, next: new Map(), isAlive: isEnd }
    known.set(key, state)
    states.push(state)
    return state
  }
  const start = stateOf(
    automata.map((nfa) => closure(nfa, [nfa.start])),
    0,
  )
  // grows while it is read
  for (const state of states) {
    if (state.length >= max) continue
    const length = max === Infinity ? Math.min(state.length + 1, min) : state.length + 1
    for (const { characters, sample } of classes) {
      spend(1)
      const sets = automata.map((nfa, nth) => move(nfa, state.sets[nth]!, sample))
      if (sets.some((set, nth) => set.length === 0 && !automata[nth]!.isNegated)) continue
      const key = sets.map((set) => set.join()).join(';')
      const edge = state.next.get(key)
      if (edge === undefined) {
        state.next.set(key, { characters: [characters], state: stateOf(sets, length) })
      } else edge.characters.push(characters)
    }
  }
  return { start, states }
}

/** Sorted, and with 0 where a text may end. */
function closure({ states }: Nfa, from: Iterable<number>): number[] {
  const reached = new Set(from)
  for (const at of reached) {
    const { set, next } = states[at]!
    if (set === undefined) for (const one of next) reached.add(one)
  }
  return [...reached]
    .filter((at) => at === 0 || states[at]!.set !== undefined)
    .toSorted((a, b) => a - b)
}

function move(nfa: Nfa, from: readonly number[], code: number): number[] {
  const after = new Set<number>()
  for (const at of from) {
    const { set, next } = nfa.states[at]!
    if (set !== undefined && includes(set, code)) for (const one of next) after.add(one)
  }
  return closure(nfa, after)
}

const includes = (set: CodePointSet, code: number): boolean =>
  set.some(([first, last]) => code >= first && code <= last)

/** Characters that no automaton tells apart. */
function classesOf(
  automata: readonly Nfa[],
): { readonly characters: CodePointSet; readonly sample: number }[] {
  const all = automata.flatMap(({ states }) => states.flatMap(({ set }) => (set ? [set] : [])))
  const distinct = [...new Map(all.map((set) => [JSON.stringify(set), set])).values()]
  const cuts = new Set([0])
  for (const [first, last] of distinct.flat()) {
    cuts.add(first)
    if (last < 0x10ffff) cuts.add(last + 1)
  }
  const sorted = [...cuts].toSorted((a, b) => a - b)
  const groups = new Map<string, { characters: [number, number][]; sample: number }>()
  for (const [index, first] of sorted.entries()) {
    const last = (sorted[index + 1] ?? 0x110000) - 1
    const signature = distinct.map((set) => (includes(set, first) ? 1 : 0)).join('')
    const group = groups.get(signature) ?? { characters: [], sample: first }
    group.characters.push([first, last])
    groups.set(signature, group)
  }
  return [...groups.values()]
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
      return name === undefined || text === undefined ? [] : [`${text} ${name}`]
    })
    writer.define(names.get(state)!, [...edges, ...(state.isEnd ? ['""'] : [])].join(' | '))
  }
  return names.get(states[0]!)!
}
