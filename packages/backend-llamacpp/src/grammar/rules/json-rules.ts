import { entryOf } from '@cllm/core'
import { type GbnfWriter, literal, oneOf, plainCharacters } from '../gbnf/gbnf-writer.js'
import { difference, spaces } from '../pattern/characters.js'

/**
 * JSON itself. Whitespace is bounded, so that no model can go on with it for ever: at most one blank,
 * or one line break with its indentation. Numbers have at most 15 digits, which a double keeps, and
 * characters are never halves of surrogate pairs. Each rule has those that it needs.
 */
const rules: Readonly<
  Record<string, { readonly body: string; readonly needs?: readonly string[] }>
> = {
  ws: { body: String.raw`" "? | "\n" " "{0,32}` },
  char: {
    body:
      String.raw`[\x20-\x21\x23-\x5b\x5d-\ud7ff\ue000-\U0010ffff] | ` +
      String.raw`"\\" (["\\/bfnrt] | "u" ([0-9a-cA-Ce-fE-F] hex hex hex | [dD] [0-7] hex hex))`,
    needs: ['hex'],
  },
  // what whoever trims a text leaves
  solid: {
    body: `${oneOf(difference(plainCharacters, spaces))} | "\\\\" ["\\\\/]`,
  },
  hex: { body: '[0-9a-fA-F]' },
  string: { body: String.raw`"\"" char* "\""`, needs: ['char'] },
  integer: { body: '"0" | "-"? [1-9] [0-9]{0,14}' },
  number: {
    body: '"-"? ("0" | [1-9] [0-9]{0,14}) ("." [0-9]{1,15})? ([eE] [-+]? [0-9]{1,2})?',
  },
  boolean: { body: '"true" | "false"' },
  value: {
    body: 'object | array | string | number | boolean | "null"',
    needs: ['object', 'array', 'string', 'number', 'boolean'],
  },
  member: { body: 'string ":" ws value', needs: ['string', 'ws', 'value'] },
  object: {
    body: '"{" ws (member ("," ws member)* ws)? "}"',
    needs: ['member', 'ws'],
  },
  array: { body: '"[" ws (value ("," ws value)* ws)? "]"', needs: ['value', 'ws'] },
}

/** Makes sure that the writer has one of JSON's rules, and returns its name. */
export function jsonRule(writer: GbnfWriter, name: string): string {
  const rule = rules[name]
  if (rule === undefined || writer.has(name)) return name
  writer.define(name, rule.body)
  for (const needed of rule.needs ?? []) jsonRule(writer, needed)
  return name
}

/**
 * One of several texts as GBNF, with what texts begin with in common written once: llama.cpp follows
 * each alternative by itself.
 */
export function choiceRule(writer: GbnfWriter, texts: readonly string[]): string {
  const distinct = Array.from(new Set(texts), (text) => Array.from(text))
  return rest(writer, distinct, 0)
}

/** What the texts have from the character `from` on; up to there they are the same. */
function rest(writer: GbnfWriter, texts: readonly (readonly string[])[], from: number): string {
  const groups = new Map<string, (readonly string[])[]>()
  for (const text of texts) {
    entryOf(groups, text[from] ?? '', () => []).push(text)
  }
  const parts = [...groups].map(([first, group]) => {
    if (first === '') return '""'
    let end = from + 1
    while (group.length > 1 && group.every((text) => text[end] === group[0]?.[end])) end++
    if (group.length === 1) return literal(group[0]!.slice(from).join(''))
    return `${literal(group[0]!.slice(from, end).join(''))} ${writer.rule(rest(writer, group, end))}`
  })
  return parts.join(' | ')
}
