import { ElementKind, type GbnfRules } from '../gbnf/gbnf-rules.js'
import { refused } from '../refuse.js'
import { type CodePointSet, isSameSet, union } from '../pattern/characters/code-point-set.js'
import type { StackGraph } from './stack-graph.js'

/** Ranges of characters that are put together: some 30 ms. */
const mostRanges = 250_000

/**
 * For each rule the characters that can come directly after a text of it, wherever the grammar uses
 * the rule: the FOLLOW sets of LL(1) parsing (Aho, Lam, Sethi, Ullman, "Compilers", 4.4.2).
 *
 * @param charactersOf - the characters that a stack other than 0 can read next
 * @throws CllmError where that takes too long
 */
export function followSets(
  { kinds, values, starts }: GbnfRules,
  graph: StackGraph,
  charactersOf: (stack: number) => CodePointSet,
): CodePointSet[] {
  let left = mostRanges
  const joined = (sets: readonly CodePointSet[]): CodePointSet => {
    const [first = [], ...others] = new Set(sets.filter((set) => set.length > 0))
    if (others.length === 0) return first
    left -= sets.reduce((sum, set) => sum + set.length, 0)
    if (left < 0) throw refused('The characters behind its rules are too many to tell', {})
    return union([first, ...others].flat())
  }
  const follow: CodePointSet[] = Array.from(starts, () => [])
  /** Rules that can end where a rule ends: what follows the rule follows them. */
  const last: Set<number>[] = Array.from(starts, () => new Set())
  for (const [rule, start] of starts.entries()) {
    for (let at = start; kinds[at] !== ElementKind.End; at++) {
      if (kinds[at] !== ElementKind.Rule) continue
      const used = values[at]!
      const behind = [follow[used]!]
      for (const stack of graph.from(at + 1)) {
        if (stack === 0) last[rule]!.add(used)
        else behind.push(charactersOf(stack))
      }
      follow[used] = joined(behind)
    }
  }
  const changed = [...starts.keys()]
  for (let rule = changed.pop(); rule !== undefined; rule = changed.pop()) {
    for (const inner of last[rule]!) {
      const merged = joined([follow[inner]!, follow[rule]!])
      if (isSameSet(merged, follow[inner]!)) continue
      follow[inner] = merged
      changed.push(inner)
    }
  }
  return follow
}
