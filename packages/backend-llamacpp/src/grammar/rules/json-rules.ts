import { entryOf } from '@cllm/core/defined'
import { type GbnfWriter, literal, oneOf, plainCharacters } from '../gbnf/gbnf-writer.js'
import { difference, spaces } from '../pattern/code-point-set.js'
import type { Amount } from '../gbnf/gbnf-reader.js'
import type { Spend } from '../refuse.js'

/**
 * The rules of JSON. Whitespace is bounded, so that no model can write it for ever: at most one space, or one line
 * break with its indentation. Numbers have at most 15 digits, which a double keeps, and characters are never halves of
 * surrogate pairs.
 */
const rules: Readonly<Record<string, string>> = {
  ws: String.raw`" "? | "\n" " "{0,32}`,
  char:
    String.raw`[\x20-\x21\x23-\x5b\x5d-\ud7ff\ue000-\U0010ffff] | ` +
    String.raw`"\\" (["\\/bfnrt] | "u" ([0-9a-cA-Ce-fE-F] hex hex hex | [dD] [0-7] hex hex))`,
  // characters that trimming a text does not remove
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

/** Adds one of JSON's rules, with the rules that it refers to, unless the writer has it; returns its name. */
export function jsonRule(writer: GbnfWriter, name: string): string {
  const body = rules[name]
  if (body === undefined || writer.has(name)) return name
  writer.define(name, body)
  for (const [needed] of body.matchAll(/[a-z]+/g)) jsonRule(writer, needed)
  return name
}

/**
 * Writes one of several texts as GBNF. Common beginnings are only written once, as llama.cpp follows each alternative
 * separately.
 */
export function choiceRule(writer: GbnfWriter, texts: readonly string[]): string {
  const distinct = Array.from(new Set(texts), (text) => Array.from(text))
  return rest(writer, distinct, 0)
}

/** Writes the rests of texts from the character `from` on; before it, they are the same. */
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

/** A property or an element between commas. */
export interface Member {
  readonly rule: string
  readonly isRequired: boolean
}

/**
 * Writes members in their order, of which optional ones may be left out, then any number of others, as GBNF; undefined
 * if `min` to `max` members cannot be written. The comma comes before the choice between members, so that a text has
 * few readings.
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

  /** Whether no more members are needed if all before `index` were considered and `written` were written. */
  const canEnd = (index: number, written: number): boolean => written >= min && index > lastRequired

  /** Writes at least one member from `index` on; undefined if none can come. */
  const next = (index: number, written: number): string | undefined => {
    if (written >= max) return undefined
    const most = written + (other === undefined ? members.length - index : Infinity)
    if (most < min) return undefined
    // while the limits are kept anyway, it does not matter how many members were written
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

  /** Writes what follows a member; empty: nothing follows. */
  const behind = (index: number, written: number): string | undefined => {
    const more = next(index, written)
    const isEnd = canEnd(index, written)
    if (more === undefined) return isEnd ? '' : undefined
    return writer.rule(isEnd ? `("," ws ${more})?` : `"," ws ${more}`)
  }

  const others = (written: number): string | undefined => {
    // others may all have the same name, so only one of them counts
    if (other === undefined || written + 1 < min) return undefined
    const rest = writer.repeat(writer.rule(`"," ws ${other}`), 0, max - written - 1)
    return writer.rule(`${other} ${rest}`.trimEnd())
  }

  const first = next(0, 0)
  if (!canEnd(0, 0)) return first && `"${open}" ws ${first} ws "${close}"`
  return first === undefined ? `"${open}${close}"` : `"${open}" ws (${first} ws)? "${close}"`
}
