import { grammarLimits } from '../budget/grammar-limits.js'
import type { GbnfRules } from './gbnf-rules.js'
import { emptyRules, firstRules } from './rule-graph.js'
import { refused } from '../refuse.js'

/** A rule on the search path. */
interface Visit {
  readonly rule: number
  readonly first: readonly number[]
  next: number
}

/**
 * Refuses left recursion, on which llama.cpp does not end (it finds most of it, not what is hidden
 * behind rules that may be empty in two steps), and grammars in which its own search would take long:
 * `llama_grammar_detect_left_recursion` enters a rule again for each way that leads to it.
 * @throws CllmError `invalid_constraint`
 */
export function checkRecursion(rules: GbnfRules): void {
  const { names, starts } = rules
  const isEmpty = emptyRules(rules)
  /** What the search does from a rule on; 0: not known, −1: being looked at. */
  const visits = new Float64Array(starts.length)
  const depths = new Uint32Array(starts.length)
  const enter = (rule: number): Visit => {
    visits[rule] = -1
    return { rule, first: firstRules(rules, isEmpty, rule), next: 0 }
  }
  let all = 0
  for (let root = 0; root < starts.length; root++) {
    if (visits[root] !== 0) continue
    const trail = [enter(root)]
    for (let visit = trail.at(-1); visit !== undefined; visit = trail.at(-1)) {
      const rule = visit.first[visit.next]
      if (rule === undefined) {
        trail.pop()
        settle(visit, visits, depths)
        check(names[visit.rule] ?? '', visits[visit.rule]!, depths[visit.rule]!)
      } else if (visits[rule] === -1) {
        const cycle = trail.slice(trail.findIndex((one) => one.rule === rule))
        throw leftRecursion([...cycle.map((one) => names[one.rule] ?? ''), names[rule] ?? ''])
      } else if (visits[rule] === 0) trail.push(enter(rule))
      else visit.next++
    }
    // llama.cpp begins with each rule that it has not entered, and enters all behind it anew
    all += visits[root]!
    check('root', all, 0)
  }
}

function settle({ rule, first }: Visit, visits: Float64Array, depths: Uint32Array): void {
  visits[rule] = first.reduce((sum, other) => sum + visits[other]!, 1)
  depths[rule] = first.reduce((most, other) => Math.max(most, depths[other]!), 0) + 1
}

function check(name: string, visits: number, depth: number): void {
  const { recursionVisits, recursionDepth } = grammarLimits
  if (visits > recursionVisits) {
    const reason = `the rule ${name} can begin in more than ${recursionVisits} ways`
    throw refused(`The grammar cannot be used: ${reason}`, { reason, limit: recursionVisits })
  }
  if (depth > recursionDepth) {
    const reason = `the rule ${name} begins with rules in rules, more than ${recursionDepth} deep`
    throw refused(`The grammar cannot be used: ${reason}`, { reason, limit: recursionDepth })
  }
}

function leftRecursion(cycle: readonly string[]) {
  const shown = cycle.length > 8 ? [...cycle.slice(0, 4), '…', ...cycle.slice(-3)] : cycle
  const reason = `the rule ${cycle[0]} begins with itself (${shown.join(' → ')})`
  return refused(`The grammar cannot be used: ${reason}`, { reason })
}
