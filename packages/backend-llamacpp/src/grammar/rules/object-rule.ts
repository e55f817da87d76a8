import { entryOf } from '@cllm/core/defined'
import { type GbnfWriter, literal, oneOf, plainCharacters } from '../gbnf/gbnf-writer.js'
import { noneOf, notPattern, orRefused } from '../pattern/parse-pattern.js'
import { patternRule } from '../pattern/pattern-rule.js'
import { isOfStrings, refusedSchema } from '../refuse.js'
import { jsonRule, type Member, writeMembers } from './json-rules.js'
import { type Facts, memberOf, waysOf } from '../schema/facts.js'
import {
  type Conjunction,
  pointerOf,
  type RuleCompiler,
  whereOf,
} from '../schema/schema-document.js'
import { type CodePointSet, difference, includes, union } from '../pattern/code-point-set.js'
import { numberRule } from './number-rule.js'
import { stringRule } from './string-rule.js'
import { accepts, listedValues } from '../schema/is-valid.js'

/** The most unnamed properties that must come: their names differ in the first letter. */
const letters = 26

/** Writes the allowed objects as GBNF; undefined if there are none. */
export function objectRule(compiler: RuleCompiler, facts: Facts): string | undefined {
  const { writer, document } = compiler
  const { required, properties, names } = facts
  jsonRule(writer, 'ws')
  let members: Member[] = []
  const add = (name: string, all: Conjunction): boolean => {
    const value = acceptsName(names, name) ? compiler.compile(all) : undefined
    const isRequired = required.has(name)
    if (value === undefined) return !isRequired
    const rule = writer.rule(`${literal(JSON.stringify(name))} ":" ws ${value}`)
    members.push({ rule, isRequired })
    return true
  }
  for (const [name, all] of properties) if (!add(name, all)) return undefined
  const listed = listedNames(names)
  for (const name of facts.isClosed ? [] : (listed ?? [])) {
    const all = facts.places.flatMap((place) => memberOf(place, name, ['additionalProperties']))
    if (!properties.has(name)) add(name, all)
  }
  const other = listed === undefined ? othersRule(compiler, facts) : undefined
  const missing = facts.minProperties - members.length
  if (missing > 0) {
    if (other === undefined) return undefined
    // unnamed properties may all have the same name, so all named ones are required to reach the minimum
    members = members.map(({ rule }) => ({ rule, isRequired: true }))
    members.push(...furtherMembers(compiler, facts, missing, other))
  }
  const count = { min: facts.minProperties, max: facts.maxProperties }
  const spend = document.budget.at(whereOf(facts.places))
  return writeMembers(writer, ['{', '}'], members, other, count, spend)
}

/** Writes properties that are not named. */
function othersRule(compiler: RuleCompiler, facts: Facts): string | undefined {
  const { writer } = compiler
  if (facts.patterned.size > 0) return patternedRule(compiler, facts)
  if (facts.isClosed) return undefined
  const value = compiler.compile(facts.additional)
  if (value === undefined) return undefined
  try {
    const key = freeKeys(compiler, facts)
    return key && writer.rule(`${key} ":" ws ${value}`)
  } catch (error) {
    // the object may still have named properties
    if (isOfStrings(error) && facts.properties.size > 0) return undefined
    throw error
  }
}

/** Writes properties whose names match patterns, and other ones if these are allowed. */
function patternedRule(compiler: RuleCompiler, facts: Facts): string | undefined {
  const { writer } = compiler
  const none = Array.from(facts.patterned.keys(), notPattern)
  const members = (kept: readonly string[], all: Conjunction): string[] => {
    const value = compiler.compile(all)
    const key = value && freeKeys(compiler, facts, kept)
    return key ? [writer.rule(`${key} ":" ws ${value}`)] : []
  }
  try {
    const rules = [...facts.patterned].flatMap(([pattern, all], nth) =>
      members([pattern, ...none.toSpliced(nth, 1)], all),
    )
    if (!facts.isClosed && facts.additional.length > 0) {
      rules.push(...members(none, facts.additional))
    }
    return rules.length === 0 ? undefined : writer.rule(rules.join(' | '))
  } catch (error) {
    if (!isOfStrings(error)) throw error
    return commonRule(compiler, facts)
  }
}

/** Writes properties that are valid by the schemas of all patterns, so that it does not matter which patterns match. */
function commonRule(compiler: RuleCompiler, facts: Facts): string | undefined {
  const { writer, document } = compiler
  const pointer = pointerOf(facts, 'patternProperties')
  const value = compiler.compile([...facts.patterned.values()].flat())
  const free = [...facts.patterned.keys()].filter((pattern) =>
    [...facts.properties.keys()].every((name) => !document.matches(pattern, name, pointer)),
  )
  if (value === undefined || free.length === 0 || facts.names.length > 0) return undefined
  const [lengths, spend] = [{ min: 0, max: Infinity }, document.budget.at(pointer)]
  const keys = orRefused(pointer, () =>
    free.map((pattern) => patternRule(writer, pattern, lengths, spend)),
  )
  return writer.rule(`"\\"" (${keys.join(' | ')}) "\\"" ":" ws ${value}`)
}

/** Writes unnamed properties that must come, each with a different name. */
function furtherMembers(
  compiler: RuleCompiler,
  facts: Facts,
  count: number,
  other: string,
): Member[] {
  const { writer } = compiler
  if (count === 1) return [{ rule: other, isRequired: true }]
  const value = compiler.compile(facts.additional)
  const refuse = () => {
    const pointer = pointerOf(facts, 'minProperties')
    const reason = `it asks for ${count} properties more than there are names`
    return refusedSchema(pointer, reason)
  }
  if (count > letters || facts.patterned.size > 0 || value === undefined) throw refuse()
  const share = Math.floor(letters / count)
  const start = freeStart([...facts.properties.keys()])
  const isFree = facts.names.length === 0
  return Array.from({ length: count }, (_, nth) => {
    const code = 'a'.charCodeAt(0) + nth * share
    const range = `[${String.fromCharCode(code)}-${String.fromCharCode(code + share - 1)}]`
    const key = isFree
      ? `"\\"${start}" ${range} [a-z0-9]{2,20} "\\""`
      : freeKeys(compiler, facts, [`^${range}`])
    if (key === undefined) throw refuse()
    return { rule: writer.rule(`${key} ":" ws ${value}`), isRequired: true }
  })
}

/** A prefix such that no name begins with it and a letter. */
function freeStart(names: readonly string[]): string {
  let start = ''
  while (names.some((name) => name.startsWith(start) && /^[a-z]/.test(name.slice(start.length)))) {
    start += 'x_'
  }
  return start
}

/** Whether a schema of names is for numbers, which zod writes for numeric keys: names are then texts of numbers. */
const isOfNumbers = ({ types = [] }: Facts): boolean =>
  types.includes('number') && !types.includes('string')

const spelled = /^(?:0|-?[1-9][0-9]{0,14})$/

/** Whether a property may have this name. */
function acceptsName(names: Conjunction, name: string): boolean {
  return waysOf(names).some((way) => {
    if (!isOfNumbers(way)) return accepts(way.places, name)
    return spelled.test(name) && accepts(way.places, Number(name))
  })
}

/** The names that an `enum` or `const` lists; undefined if there is no list. */
function listedNames(names: Conjunction): readonly string[] | undefined {
  if (names.length === 0) return undefined
  const listed: string[] = []
  for (const way of waysOf(names)) {
    const values = listedValues(way)
    if (values === undefined) return undefined
    for (const value of values) {
      const isName = typeof value === 'string' || (isOfNumbers(way) && Number.isInteger(value))
      if (isName) listed.push(String(value))
    }
  }
  return [...new Set(listed)]
}

/**
 * Writes the names of unnamed properties as GBNF; undefined if there are none.
 * @param kept - patterns that the names must match
 * @throws CllmError `invalid_constraint`; from `refusedStrings` if no automaton can follow the patterns
 */
function freeKeys(
  compiler: RuleCompiler,
  facts: Facts,
  kept: readonly string[] = [],
): string | undefined {
  const { writer, document } = compiler
  const { names, properties } = facts
  const ways = waysOf(names)
  if (kept.length === 0 && ways.some(isAnyText)) return keyRule(writer, properties.keys())
  const pointer = pointerOf(facts, kept.length === 0 ? 'propertyNames' : 'patternProperties')
  const others = [...properties.keys()].filter((name) =>
    kept.every((pattern) => document.matches(pattern, name, pointer)),
  )
  const patterns = [...kept, ...(others.length === 0 ? [] : [noneOf(others)])]
  const keys = ways.flatMap((way) => {
    if (isOfNumbers(way)) return patterns.length > 0 ? [] : (numericKeys(compiler, way) ?? [])
    if (way.types?.includes('string') === false) return []
    const values = listedValues(way)
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

/** Writes names that are the text of an integer. */
function numericKeys(compiler: RuleCompiler, way: Facts): string | undefined {
  const digits = numberRule(compiler, { ...way, isInteger: true })
  return digits && `"\\"" ${digits} "\\""`
}

function isAnyText({ types, values, patterns, formats, minLength, maxLength }: Facts): boolean {
  const isText = types === undefined || types.includes('string')
  const hasRules = values !== undefined || patterns.length + formats.length > 0
  return isText && !hasRules && minLength === 0 && maxLength === Infinity
}

/** A node in a trie of names, by their characters. */
interface Branch {
  readonly next: Map<number, Branch>
  isName: boolean
}

/** Writes all JSON strings without escapes, except these names, as GBNF. */
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

/** Writes what may follow in a key that has come as far as this node, including the closing quote. */
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
