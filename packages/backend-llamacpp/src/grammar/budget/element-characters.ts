import { ElementKind, type GbnfRules } from '../gbnf/gbnf-rules.js'
import type { CodePointRange } from '../gbnf/gbnf-writer.js'
import { type CodePointSet, complement, union } from '../pattern/characters/code-point-set.js'

/** The characters that an element matches; undefined for elements that match tokens. */
export function charactersAt({ kinds, values }: GbnfRules, at: number): CodePointSet | undefined {
  const kind = kinds[at]
  if (kind === ElementKind.AnyCharacter) return complement([])
  if (kind !== ElementKind.Character && kind !== ElementKind.NotCharacter) return undefined
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
