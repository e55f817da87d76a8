import { entryOf } from '@cllm/core'
import { type GbnfWriter, literal, oneOf, plainCharacters } from '../gbnf/gbnf-writer.js'
import { difference, spaces } from '../pattern/characters.js'

/**
 * JSON itself. Whitespace is bounded, so that no model can go on with it for ever: at most one blank,
 * or one line break with its indentation. Numbers have at most 15 digits, which a double keeps, and
 * characters are never halves of surrogate pairs.
 */
const rules: Readonly<Record<string, string>> = {
  ws: String.raw`" "? | "\n" " "{0,32}`,
  char:
    String.raw`[\x20-\x21\x23-\x5b\x5d-\ud7ff\ue000-\U0010ffff] | ` +
    String.raw`"\\" (["\\/bfnrt] | "u" ([0-9a-cA-Ce-fE-F] hex hex hex | [dD] [0-7] hex hex))`,
  // what whoever trims a text leaves
  solid: `${oneOf(difference(plainCharacters, spaces))} | "\\\\" ["\\\\/]`,
  hex: '[0-9a-fA-F]',
  string: String.raw`"\"" char* "\""`,
  integer: '"0" | "-"? [1-9] [0-9]{0,14}',
  number: '"-"? ("0" | [1-9] [0-9]{0,14}) ("." [0-9]{1,15})? ([eE] [-+]? [0-9]{1,2})?',
  boolean: '"true" | "false"',
  value: 'object | array | string | number | boolean | "null"',
  member: 'string ":" ws value',
  object: '"{" ws (member ("," ws member)* ws)? "}"',
  array: '"[" ws (value ("," ws value)* ws)? "]"',
}

/** Makes sure that the writer has one of JSON's rules, with those that it names, and returns its name. */
export function jsonRule(writer: GbnfWriter, name: string): string {
  const body = rules[name]
  if (body === undefined || writer.has(name)) return name
  writer.define(name, body)
  for (const [needed] of body.matchAll(/[a-z]+/g)) jsonRule(writer, needed)
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
