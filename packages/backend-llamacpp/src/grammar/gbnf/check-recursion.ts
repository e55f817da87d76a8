import { entryOf } from '@cllm/core'
import { alternativesOf, ElementKind, endsAlternative, type GbnfRules } from './gbnf-rules.js'
import { refused } from '../refuse.js'

/**
 * Refuses left recursion, also behind rules that may be empty: no text would ever be read.
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

/** Which rules may be empty. Linear in the size of the grammar, however deep its rules are. */
function emptyRules(rules: GbnfRules): Uint8Array {
  const { kinds, values, starts } = rules
  const isEmpty = new Uint8Array(starts.length)
  /** The alternatives that name a rule, and nothing but rules: of which rule, and how many may be not empty. */
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
