import { entryOf } from '@cllm/core'
import { type GbnfWriter, literal, oneOf } from '../gbnf/gbnf-writer.js'
import { plainCharacters } from '../pattern/character-rule.js'
import {
  type CodePointSet,
  difference,
  includes,
  union,
} from '../pattern/characters/code-point-set.js'
import { noneOf } from '../pattern/regex-to-gbnf.js'
import { numberRule } from './number-rule.js'
import { stringRule } from './string-rule.js'
import { type Facts, waysOf } from '../schema/facts.js'
import { accepts, listedValues } from '../schema/is-valid.js'
import {
  type Conjunction,
  pointerOf,
  type RuleCompiler,
  type SchemaDocument,
} from '../schema/schema-document.js'

/** Whether a schema of names is one of numbers, as zod has it for numeric keys: names then spell one. */
const isOfNumbers = ({ types = [] }: Facts): boolean =>
  types.includes('number') && !types.includes('string')

const spelled = /^(?:0|-?[1-9][0-9]{0,14})$/

/** Whether a property may have this name. */
export function acceptsName(document: SchemaDocument, names: Conjunction, name: string): boolean {
  return waysOf(document, names).some((way) => {
    if (!isOfNumbers(way)) return accepts(document, way.places, name)
    return spelled.test(name) && accepts(document, way.places, Number(name))
  })
}

/** The names that an `enum` or `const` allows; undefined where there is none. */
export function listedNames(
  document: SchemaDocument,
  names: Conjunction,
): readonly string[] | undefined {
  if (names.length === 0) return undefined
  const listed: string[] = []
  for (const way of waysOf(document, names)) {
    const values = listedValues(document, way)
    if (values === undefined) return undefined
    for (const value of values) {
      const isName = typeof value === 'string' || (isOfNumbers(way) && Number.isInteger(value))
      if (isName) listed.push(String(value))
    }
  }
  return [...new Set(listed)]
}

/**
 * Names of properties that are not named, as GBNF; undefined when there is none.
 * @param kept - patterns that they match
 * @throws CllmError `invalid_constraint`, one of strings where no automaton can follow the patterns
 */
export function freeKeys(
  compiler: RuleCompiler,
  facts: Facts,
  kept: readonly string[] = [],
): string | undefined {
  const { writer, document } = compiler
  const { names, properties } = facts
  const ways = waysOf(document, names)
  if (kept.length === 0 && ways.some(isAnyText)) return keyRule(writer, properties.keys())
  const pointer = pointerOf(facts, kept.length === 0 ? 'propertyNames' : 'patternProperties')
  const others = [...properties.keys()].filter((name) =>
    kept.every((pattern) => document.matches(pattern, name, pointer)),
  )
  const patterns = [...kept, ...(others.length === 0 ? [] : [noneOf(others)])]
  const keys = ways.flatMap((way) => {
    if (isOfNumbers(way)) return patterns.length > 0 ? [] : (numericKeys(compiler, way) ?? [])
    if (way.types?.includes('string') === false) return []
    const values = listedValues(document, way)
    if (values === undefined) {
      return stringRule(compiler, { ...way, patterns: [...way.patterns, ...patterns] }) ?? []
    }
    const free = values.filter(
      (value) =>
        typeof value === 'string' &&
        patterns.every((pattern) => document.matches(pattern, value, pointer)),
    )
    return free.map((value) => literal(JSON.stringify(value)))
  })
  return keys.length === 0 ? undefined : writer.rule(keys.join(' | '))
}

/** Names that spell an integer. */
function numericKeys(compiler: RuleCompiler, way: Facts): string | undefined {
  const digits = numberRule(compiler, { ...way, isInteger: true })
  return digits && `"\\"" ${digits} "\\""`
}

function isAnyText({ types, values, patterns, formats, minLength, maxLength }: Facts): boolean {
  const isText = types === undefined || types.includes('string')
  const hasRules = values !== undefined || patterns.length + formats.length > 0
  return isText && !hasRules && minLength === 0 && maxLength === Infinity
}

/** Names as a tree of their characters. */
interface Branch {
  readonly next: Map<number, Branch>
  isName: boolean
}

/** Every JSON string without escapes that is none of these names, as GBNF. */
function keyRule(writer: GbnfWriter, names: Iterable<string>): string {
  const root: Branch = { next: new Map(), isName: false }
  for (const name of names) {
    let branch = root
    for (const character of name) {
      const code = character.codePointAt(0)!
      branch = entryOf(branch.next, code, () => ({ next: new Map(), isName: false }))
    }
    branch.isName = true
  }
  return writer.rule(`"\\"" ${rest(writer, root)}`)
}

/** What may follow in a key that has come so far, its closing quote included. */
function rest(writer: GbnfWriter, { next, isName }: Branch): string {
  const known: CodePointSet = union([...next.keys()].map((code) => [code, code] as const))
  const other = oneOf(difference(plainCharacters, known))
  const anything = writer.rule(`${oneOf(plainCharacters)}* "\\""`)
  const parts = [`${other} ${anything}`, ...(isName ? [] : ['"\\""'])]
  for (const [code, branch] of next) {
    if (!includes(plainCharacters, code)) continue
    parts.push(`${oneOf([[code, code]])} ${rest(writer, branch)}`)
  }
  return writer.rule(parts.join(' | '))
}
