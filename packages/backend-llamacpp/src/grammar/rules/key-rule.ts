import { plainCharacters } from '../pattern/character-rule.js'
import { type CodePointSet, difference, union } from '../pattern/characters/code-point-set.js'
import { type GbnfWriter, oneOf } from '../gbnf/gbnf-writer.js'

/** Names as a tree of their characters. */
interface Branch {
  readonly next: Map<number, Branch>
  isName: boolean
}

/** Every JSON string without escapes that is none of these names, as GBNF. */
export function keyRule(writer: GbnfWriter, names: Iterable<string>): string {
  const root: Branch = { next: new Map(), isName: false }
  for (const name of names) grow(root, name)
  return writer.rule(`"\\"" ${rest(writer, root)}`)
}

function grow(root: Branch, name: string): void {
  let branch = root
  for (const character of name) {
    const code = character.codePointAt(0) ?? 0
    const next = branch.next.get(code) ?? { next: new Map<number, Branch>(), isName: false }
    branch.next.set(code, next)
    branch = next
  }
  branch.isName = true
}

/** What may follow in a key that has come so far, its closing quote included. */
function rest(writer: GbnfWriter, { next, isName }: Branch): string {
  const known: CodePointSet = union([...next.keys()].map((code) => [code, code] as const))
  const other = oneOf(difference(plainCharacters, known))
  const anything = writer.rule(`${oneOf(plainCharacters)}* "\\""`)
  const parts = [`${other} ${anything}`, ...(isName ? [] : ['"\\""'])]
  for (const [code, branch] of next) {
    const isPlain = plainCharacters.some(([first, last]) => code >= first && code <= last)
    if (isPlain) parts.push(`${oneOf([[code, code]])} ${rest(writer, branch)}`)
  }
  return writer.rule(parts.join(' | '))
}
