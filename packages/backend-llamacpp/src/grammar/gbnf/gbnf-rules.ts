import { type CodePointSet, complement, union } from '../pattern/characters/code-point-set.js'
import type { CodePointRange } from './gbnf-writer.js'

/** What an element of a rule is, as llama.cpp numbers them (`llama_gretype`). */
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
 * A grammar as llama.cpp holds it: repetitions and groups are rules of their own. All rules follow
 * one another in one list of elements, so an element's index says what `llama_grammar_element*` does.
 */
export interface GbnfRules {
  readonly kinds: Uint8Array
  /** A code point, the number of a rule or a token, by kind. */
  readonly values: Uint32Array
  /** Where each rule begins. */
  readonly starts: Uint32Array
  /** For messages; a group has the name of the rule that it is in. */
  readonly names: readonly string[]
  /** The number of the root rule. */
  readonly root: number
}

/** Elements of rules. */
interface ElementLists {
  readonly kinds: ArrayLike<number>
  readonly values: ArrayLike<number>
}

/** Whether an alternative of a rule ends before this element. */
export function endsAlternative(kind: number): boolean {
  return kind <= ElementKind.Alternative
}

/** Where the alternatives of a rule begin. */
export function* alternativesOf(
  { kinds, starts }: GbnfRules,
  rule: number,
): Generator<number, void> {
  for (let at = starts[rule]!; ; at++) {
    yield at
    while (!endsAlternative(kinds[at]!)) at++
    if (kinds[at] === ElementKind.End) return
  }
}

/** Where the element behind this one is; a set of characters counts as one. */
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
