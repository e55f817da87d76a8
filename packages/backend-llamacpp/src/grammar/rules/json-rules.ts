import { entryOf } from '@cllm/core'
import { type GbnfWriter, literal, oneOf, plainCharacters } from '../gbnf/gbnf-writer.js'
import { difference, spaces } from '../pattern/code-point-set.js'
import type { Amount } from '../gbnf/gbnf-reader.js'
import type { Spend } from '../refuse.js'

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

/** Something between commas that may be written. */
export interface Member {
  readonly rule: string
  readonly isRequired: boolean
}

/**
 * Members in their order, each optional one or not, then any number of others, as GBNF; undefined when
 * there is no way to write as many. Rules are made with and without the comma in front, which comes
 * before the choice between members, so that a text has few readings.
 */
export function writeMembers(
  writer: GbnfWriter,
  [open, close]: readonly [open: string, close: string],
  members: readonly Member[],
  other: string | undefined,
  { min, max }: Amount,
  spend: Spend,
): string | undefined {
  const known = new Map<string, string | undefined>()
  const lastRequired = members.findLastIndex(({ isRequired }) => isRequired)

  /** Whether nothing needs to follow when all members before `index` were seen and `written` of them came. */
  const canEnd = (index: number, written: number): boolean => written >= min && index > lastRequired

  /** One member at least, from `index` on; undefined when none can come. */
  const next = (index: number, written: number): string | undefined => {
    if (written >= max) return undefined
    const most = written + (other === undefined ? members.length - index : Infinity)
    if (most < min) return undefined
    // within the limits it does not matter how many there were
    return entryOf(known, `${index} ${most <= max ? Math.min(written, min) : written}`, () => {
      spend(2)
      const member = members[index]
      return member === undefined ? others(written) : from(member, index, written)
    })
  }

  const from = (member: Member, index: number, written: number): string | undefined => {
    const after = behind(index + 1, written + 1)
    const here = after === undefined ? undefined : writer.rule(`${member.rule} ${after}`.trimEnd())
    const without = member.isRequired ? undefined : next(index + 1, written)
    if (here === undefined) return without
    return without === undefined ? here : writer.rule(`${here} | ${without}`)
  }

  /** What follows a member; empty: nothing. */
  const behind = (index: number, written: number): string | undefined => {
    const more = next(index, written)
    const isEnd = canEnd(index, written)
    if (more === undefined) return isEnd ? '' : undefined
    return writer.rule(isEnd ? `("," ws ${more})?` : `"," ws ${more}`)
  }

  const others = (written: number): string | undefined => {
    // others may all have one name
    if (other === undefined || written + 1 < min) return undefined
    const rest = writer.repeat(writer.rule(`"," ws ${other}`), 0, max - written - 1)
    return writer.rule(`${other} ${rest}`.trimEnd())
  }

  const first = next(0, 0)
  if (!canEnd(0, 0)) return first && `"${open}" ws ${first} ws "${close}"`
  return first === undefined ? `"${open}${close}"` : `"${open}" ws (${first} ws)? "${close}"`
}
