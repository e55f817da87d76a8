import { entryOf } from '@cllm/core/defined'
import {
  type CodePointRange,
  type CodePointSet,
  complement,
  union,
} from '../pattern/code-point-set.js'
import { refused } from '../refuse.js'

/** The kinds of elements in rules, with llama.cpp's numbers (`llama_gretype`). */
export const ElementKind = {
  End: 0,
  Alternative: 1,
  Rule: 2,
  Character: 3,
  NotCharacter: 4,
  RangeEnd: 5,
  OtherCharacter: 6,
  AnyCharacter: 7,
  Token: 8,
  NotToken: 9,
} as const

/**
 * A grammar in llama.cpp's form: repetitions and groups are separate rules. All rules are in one list of elements, in
 * which an index stands for llama.cpp's pointer `llama_grammar_element*`.
 */
export interface GbnfRules {
  readonly kinds: Uint8Array
  /** A code point, or the number of a rule or token, depending on the kind. */
  readonly values: Uint32Array
  /** Where each rule begins. */
  readonly starts: Uint32Array
  /** The names of the rules, for messages; a group has the name of its rule. */
  readonly names: readonly string[]
  /** The number of the root rule. */
  readonly root: number
}

interface ElementLists {
  readonly kinds: ArrayLike<number>
  readonly values: ArrayLike<number>
}

/** Whether this kind of element ends an alternative. */
export function endsAlternative(kind: number): boolean {
  return kind <= ElementKind.Alternative
}

/** The indexes at which the alternatives of a rule begin. */
export function* alternativesOf({ kinds, starts }: GbnfRules, rule: number): Generator<number> {
  for (let at = starts[rule]!; ; at++) {
    yield at
    while (!endsAlternative(kinds[at]!)) at++
    if (kinds[at] === ElementKind.End) return
  }
}

/** The index behind an element; a set of characters counts as one element. */
export function afterElement({ kinds }: GbnfRules, at: number): number {
  let next = at + 1
  while (kinds[next] === ElementKind.RangeEnd || kinds[next] === ElementKind.OtherCharacter) next++
  return next
}

/** The characters that an element matches; none for elements that match tokens. */
export function charactersAt({ kinds, values }: ElementLists, at: number): CodePointSet {
  const kind = kinds[at]
  if (kind === ElementKind.AnyCharacter) return complement([])
  if (kind !== ElementKind.Character && kind !== ElementKind.NotCharacter) return []
  const ranges: CodePointRange[] = []
  let pos = at
  do {
    const low = values[pos]!
    const isRange = kinds[pos + 1] === ElementKind.RangeEnd
    const high = isRange ? values[pos + 1]! : low
    if (low <= high) ranges.push([low, high])
    pos += isRange ? 2 : 1
  } while (kinds[pos] === ElementKind.OtherCharacter)
  return kind === ElementKind.Character ? union(ranges) : complement(union(ranges))
}

/**
 * Refuses left recursion, also behind rules that may be empty: with it, reading a text would never end.
 * @throws CllmError `invalid_constraint`
 */
export function checkRecursion(rules: GbnfRules): void {
  const { names, starts } = rules
  const isEmpty = emptyRules(rules)
  const isDone = new Uint8Array(starts.length)
  const isOpen = new Uint8Array(starts.length)
  for (const root of starts.keys()) {
    if (isDone[root] === 1) continue
    const trail = [{ rule: root, first: firstRules(rules, isEmpty, root) }]
    for (let visit = trail.at(-1); visit !== undefined; visit = trail.at(-1)) {
      isOpen[visit.rule] = 1
      const rule = visit.first.pop()
      if (rule === undefined) {
        isOpen[visit.rule] = 0
        isDone[visit.rule] = 1
        trail.pop()
      } else if (isOpen[rule] === 1) {
        const cycle = trail.slice(trail.findIndex((one) => one.rule === rule))
        throw leftRecursion([...cycle.map((one) => names[one.rule]!), names[rule]!])
      } else if (isDone[rule] === 0) {
        trail.push({ rule, first: firstRules(rules, isEmpty, rule) })
      }
    }
  }
}

function leftRecursion(cycle: readonly string[]) {
  const shown = cycle.length > 8 ? [...cycle.slice(0, 4), '…', ...cycle.slice(-3)] : cycle
  const reason = `the rule ${cycle[0]} begins with itself (${shown.join(' → ')})`
  return refused('The grammar cannot be used', reason)
}

/** Finds the rules that may be empty, in time linear in the size of the grammar, however deep its rules are. */
function emptyRules(rules: GbnfRules): Uint8Array {
  const { kinds, values, starts } = rules
  const isEmpty = new Uint8Array(starts.length)
  /**
   * By rule: the alternatives of rules alone that name it, with the rule that each belongs to, and how many of its own
   * rules are `left` that are not known to accept the empty text.
   */
  const waiters = new Map<number, { readonly rule: number; left: number }[]>()
  const found: number[] = []
  for (const rule of starts.keys()) {
    for (const start of alternativesOf(rules, rule)) {
      let end = start
      while (kinds[end] === ElementKind.Rule) end++
      if (!endsAlternative(kinds[end]!)) continue
      if (end === start) found.push(rule)
      const waiter = { rule, left: end - start }
      for (const named of values.subarray(start, end)) {
        entryOf(waiters, named, () => []).push(waiter)
      }
    }
  }
  for (let rule = found.pop(); rule !== undefined; rule = found.pop()) {
    if (isEmpty[rule] === 1) continue
    isEmpty[rule] = 1
    for (const waiter of waiters.get(rule) ?? []) {
      waiter.left--
      if (waiter.left === 0) found.push(waiter.rule)
    }
  }
  return isEmpty
}

/** The rules that a text of this rule may begin with. */
function firstRules(rules: GbnfRules, isEmpty: Uint8Array, rule: number): number[] {
  const { kinds, values } = rules
  const first: number[] = []
  for (const start of alternativesOf(rules, rule)) {
    for (let at = start; kinds[at] === ElementKind.Rule; at++) {
      first.push(values[at]!)
      if (isEmpty[values[at]!] === 0) break
    }
  }
  return first
}
