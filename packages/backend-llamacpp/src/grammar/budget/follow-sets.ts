import { alternativesOf, type GbnfRules } from '../gbnf/gbnf-rules.js'
import type { CodePointSet } from '../pattern/characters/code-point-set.js'
import type { FirstSets } from './first-sets.js'
import type { KnownSets } from './known-sets.js'

/**
 * For each rule the characters that can come directly after a text of it, wherever the grammar uses
 * the rule: the FOLLOW sets of LL(1) parsing.
 *
 * @throws CllmError where that takes too long
 */
export function followSets(rules: GbnfRules, first: FirstSets, sets: KnownSets): CodePointSet[] {
  const count = rules.starts.length
  const follow: CodePointSet[] = Array.from({ length: count }, () => [])
  /** Rules that can end where a rule ends: what follows the rule follows them. */
  const last: number[][] = Array.from({ length: count }, () => [])
  for (let rule = 0; rule < count; rule++) {
    for (const start of alternativesOf(rules, rule)) {
      for (const [used, after] of first.behindRules(start)) {
        follow[used] = sets.union(follow[used]!, after.characters)
        if (after.isEmpty) last[rule]!.push(used)
      }
    }
  }
  const isWaiting = new Uint8Array(count).fill(1)
  const changed = [...rules.starts.keys()]
  for (let rule = changed.pop(); rule !== undefined; rule = changed.pop()) {
    isWaiting[rule] = 0
    for (const inner of last[rule]!) {
      sets.spend(1)
      const merged = sets.union(follow[inner]!, follow[rule]!)
      if (merged === follow[inner]) continue
      follow[inner] = merged
      if (isWaiting[inner] === 0) changed.push(inner)
      isWaiting[inner] = 1
    }
  }
  return follow
}
