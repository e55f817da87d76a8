import { ElementKind, endsAlternative, type GbnfRules } from './gbnf-rules.js'

/** Which rules may be empty. Linear in the size of the grammar, however deep its rules are. */
export function emptyRules({ kinds, values, starts }: GbnfRules): Uint8Array {
  const isEmpty = new Uint8Array(starts.length)
  /** How many rules each alternative waits for, by where it begins. */
  const waiting = new Map<number, number>()
  const waiters = new Map<number, (readonly [rule: number, start: number])[]>()
  const found: number[] = []
  const settle = (rule: number) => {
    if (isEmpty[rule] === 1) return
    isEmpty[rule] = 1
    found.push(rule)
  }
  for (const [rule, first] of starts.entries()) {
    for (let at = first; ; at++) {
      const start = at
      let isOnlyRules = true
      while (!endsAlternative(kinds[at]!))
        isOnlyRules = kinds[at++] === ElementKind.Rule && isOnlyRules
      if (at === start) settle(rule)
      else if (isOnlyRules) {
        waiting.set(start, at - start)
        for (let part = start; part < at; part++) {
          const others = waiters.get(values[part]!)
          if (others === undefined) waiters.set(values[part]!, [[rule, start]])
          else others.push([rule, start])
        }
      }
      if (kinds[at] === ElementKind.End) break
    }
  }
  for (let rule = found.pop(); rule !== undefined; rule = found.pop()) {
    for (const [waiter, start] of waiters.get(rule) ?? []) {
      const left = (waiting.get(start) ?? 0) - 1
      waiting.set(start, left)
      if (left === 0) settle(waiter)
    }
  }
  return isEmpty
}

/** The rules that a text of this rule may begin with, each as often as it is named there. */
export function firstRules(rules: GbnfRules, isEmpty: Uint8Array, rule: number): number[] {
  const { kinds, values, starts } = rules
  const first: number[] = []
  let isAtStart = true
  for (let at = starts[rule]!; kinds[at] !== ElementKind.End; at++) {
    if (kinds[at] === ElementKind.Alternative) isAtStart = true
    else if (!isAtStart) continue
    else if (kinds[at] === ElementKind.Rule) {
      first.push(values[at]!)
      isAtStart = isEmpty[values[at]!] === 1
    } else isAtStart = false
  }
  return first
}
