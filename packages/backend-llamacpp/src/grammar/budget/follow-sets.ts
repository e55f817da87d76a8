import { ElementKind, type GbnfRules } from '../gbnf/gbnf-rules.js'
import { type CodePointSet, isSameSet, union } from '../pattern/characters/code-point-set.js'
import type { StackGraph } from './stack-graph.js'

/**
 * For each rule the characters that can come directly after a text of it, wherever the grammar uses
 * the rule: the FOLLOW sets of LL(1) parsing (Aho, Lam, Sethi, Ullman, "Compilers", 4.4.2).
 *
 * @param charactersOf - the characters that a stack other than 0 can read next
 */
export function followSets(
  { kinds, values, starts }: GbnfRules,
  graph: StackGraph,
  charactersOf: (stack: number) => CodePointSet,
): CodePointSet[] {
  const follow: CodePointSet[] = Array.from(starts, () => [])
  /** Rules that can end where a rule ends: what follows the rule follows them. */
  const last: Set<number>[] = Array.from(starts, () => new Set())
  for (const [rule, start] of starts.entries()) {
    for (let at = start; kinds[at] !== ElementKind.End; at++) {
      if (kinds[at] !== ElementKind.Rule) continue
      const used = values[at]!
      const ranges = [...follow[used]!]
      for (const stack of graph.from(at + 1)) {
        if (stack === 0) last[rule]!.add(used)
        else ranges.push(...charactersOf(stack))
      }
      follow[used] = union(ranges)
    }
  }
  const changed = [...starts.keys()]
  for (let rule = changed.pop(); rule !== undefined; rule = changed.pop()) {
    for (const inner of last[rule]!) {
      const merged = union([...follow[inner]!, ...follow[rule]!])
      if (isSameSet(merged, follow[inner]!)) continue
      follow[inner] = merged
      changed.push(inner)
    }
  }
  return follow
}
