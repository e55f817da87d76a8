import { entryOf } from '@cllm/core'
import { type CodePointSet, complement, difference, union } from './characters/code-point-set.js'
import { literal, oneOf } from '../gbnf/gbnf-writer.js'

/** What JSON does not take as it is, and halves of surrogate pairs. */
const special: CodePointSet = union([
  [0, 0x1f],
  [0x22, 0x22],
  [0x5c, 0x5c],
  [0xd800, 0xdfff],
])
const control: CodePointSet = [[0x80, 0x9f]]
const escapes = new Map([
  [0x09, '\\t'],
  [0x0a, '\\n'],
  [0x0d, '\\r'],
  [0x22, '\\"'],
  [0x5c, '\\\\'],
])

/** What may stand in a key that a schema does not name: nothing that is written in several ways. */
export const plainCharacters: CodePointSet = difference(complement(special), control)

/** Sets are compared by identity: a part of a pattern has one, and so has each property of Unicode's. */
const known = new WeakMap<CodePointSet, string | undefined>()

/** One character of a JSON string as GBNF, or undefined when none of the set can be one. */
export function characterRule(set: CodePointSet): string | undefined {
  return entryOf(known, set, () => write(set))
}

function write(set: CodePointSet): string | undefined {
  const plain = difference(set, special)
  const parts = plain.length === 0 ? [] : [oneOf(plain)]
  for (const [first, last] of set) {
    for (let code = first; code <= Math.min(last, 0x5c); code++) {
      // Control characters are only written where the set has nothing else.
      const isBare = code < 0x20 && plain.length === 0
      const bare = isBare ? `\\u${code.toString(16).padStart(4, '0')}` : undefined
      const escape = escapes.get(code) ?? bare
      if (escape !== undefined) parts.push(literal(escape))
    }
  }
  if (parts.length === 0) return undefined
  return parts.length === 1 ? parts[0] : `(${parts.join(' | ')})`
}
