import { entryOf } from '@cllm/core'
import { GbnfReader } from './gbnf-reader.js'
import { charactersAt } from './gbnf-rules.js'
import type { GbnfWriter } from './gbnf-writer.js'
import { characterRule } from '../pattern/character-rule.js'
import type { CodePointSet } from '../pattern/characters/code-point-set.js'

/**
 * Takes the rules of a grammar over into another one, where its texts stand inside a JSON string: quotes
 * and backslashes have one before them.
 * @returns the rule that `name` has become
 */
export function quoteGrammar(into: GbnfWriter, from: GbnfWriter, name: string): string {
  let number = 0
  while (into.has(`q${number}-${name}`)) number++
  const nameOf = (rule: string) => `q${number}-${rule}`
  const signs = new Map<number, string>()
  const sign = (code: number): string => entryOf(signs, code, () => one([[code, code]]))
  for (const [rule, body] of from.rules()) into.define(nameOf(rule), quoted(body, nameOf, sign))
  return nameOf(name)
}

function quoted(
  body: string,
  nameOf: (name: string) => string,
  sign: (code: number) => string,
): string {
  const reader = new GbnfReader(body)
  const parts: string[] = []
  while (!reader.isAtEnd) {
    const start = reader.at
    const codes: number[] = []
    const kinds: number[] = []
    const values: number[] = []
    const add = (kind: number, value: number): void => {
      kinds.push(kind)
      values.push(value)
    }
    if (reader.literal((code) => codes.push(code))) {
      parts.push(codes.length === 0 ? '""' : `(${codes.map((code) => sign(code)).join(' ')})`)
    } else if (reader.set(add)) {
      parts.push(one(charactersAt({ kinds, values }, 0)))
    } else {
      const name = reader.name()
      if (name !== undefined) parts.push(nameOf(name))
      else if (reader.repetition(false) !== undefined) parts.push(body.slice(start, reader.at))
      else parts.push(body[reader.at++]!)
    }
  }
  return parts.join('')
}

/** Every character that the grammars of JSON have can stand in a string. */
const one = (set: CodePointSet): string => characterRule(set) ?? '""'
