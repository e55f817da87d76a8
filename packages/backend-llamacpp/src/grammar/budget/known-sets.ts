import { ElementKind, type GbnfRules } from '../gbnf/gbnf-rules.js'
import type { CodePointRange } from '../gbnf/gbnf-writer.js'
import { type CodePointSet, complement, union } from '../pattern/characters/code-point-set.js'
import { refused } from '../refuse.js'

/** Ranges of characters that are put together: some 10 ms. */
const mostRanges = 100_000

/**
 * The sets of characters of a grammar. Equal sets are one object, so that `===` compares them, and what
 * is made of the same sets is made once: most rules of a large grammar have the same few.
 */
export class KnownSets {
  readonly #sets = new Map<string, CodePointSet>()
  readonly #singles = new Map<number, CodePointSet>()
  readonly #unions = new Map<CodePointSet, Map<CodePointSet, CodePointSet>>()
  readonly #at = new Map<number, CodePointSet>()
  #left = mostRanges

  constructor(private readonly rules: GbnfRules) {}

  /** The characters that an element matches. */
  at(element: number): CodePointSet {
    const { kinds, values } = this.rules
    const code = values[element]!
    const isSingle =
      kinds[element] === ElementKind.Character && kinds[element + 1]! <= ElementKind.Character
    const known = isSingle ? this.#singles.get(code) : this.#at.get(element)
    if (known !== undefined) return known
    const set = this.#one(charactersAt(this.rules, element) ?? [])
    if (isSingle) this.#singles.set(code, set)
    else this.#at.set(element, set)
    return set
  }

  /**
   * The characters of both sets.
   * @throws CllmError where all that is put together is too much
   */
  union(left: CodePointSet, right: CodePointSet): CodePointSet {
    if (left === right || right.length === 0) return left
    if (left.length === 0) return right
    const others = this.#unions.get(left) ?? new Map<CodePointSet, CodePointSet>()
    const known = others.get(right)
    if (known !== undefined) return known
    const set = this.#one(union([...left, ...right]))
    this.#unions.set(left, others.set(right, set))
    return set
  }

  /** Counts the work on a set. */
  spend(ranges: number): void {
    this.#left -= ranges
    if (this.#left < 0) throw refused('The characters behind its rules are too many to tell', {})
  }

  #one(set: CodePointSet): CodePointSet {
    this.spend(1 + set.length)
    const key = set.join()
    const known = this.#sets.get(key)
    if (known !== undefined) return known
    this.#sets.set(key, set)
    return set
  }
}

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
