import { acceptsName, isOfNumbers } from '../schema/accepts.js'
import { literal } from '../gbnf/gbnf-writer.js'
import { type Facts, factsOf } from '../schema/facts.js'
import { jsonRule } from './json-rules.js'
import { keyRule } from './key-rule.js'
import { freeKeys, listedNames } from './property-names.js'
import { PatternProblem } from '../pattern/parse-pattern.js'
import { patternRule } from '../pattern/pattern-rule.js'
import { refusedSchema } from '../refuse.js'
import { alternativesOf } from '../schema/schema-alternatives.js'
import type { SchemaCompiler } from '../schema/schema-compiler.js'
import type { Conjunction } from '../schema/schema-document.js'
import { pointerOf, stringRule } from './string-rule.js'
import { type Member, writeMembers } from './write-members.js'

/** Further properties that must come are told apart by their first letters. */
const letters = 26

/** The objects that are allowed as GBNF, or undefined when there is none. */
export function objectRule(compiler: SchemaCompiler, facts: Facts): string | undefined {
  const { writer, document } = compiler
  const { required, properties, names } = facts
  jsonRule(writer, 'ws')
  const members: Member[] = []
  const add = (name: string, all: Conjunction): boolean => {
    const value = acceptsName(document, names, name) ? compiler.compile(all) : undefined
    const isRequired = required.has(name)
    if (value === undefined) return !isRequired
    const rule = writer.rule(`${literal(JSON.stringify(name))} ":" ws ${value}`)
    members.push({ rule, isRequired })
    return true
  }
  for (const [name, all] of properties) if (!add(name, all)) return undefined
  const listed = listedNames(document, names)
  for (const name of facts.isClosed ? [] : (listed ?? [])) {
    if (!properties.has(name)) add(name, facts.additional)
  }
  const other = listed === undefined ? othersRule(compiler, facts) : undefined
  const missing = facts.minProperties - members.length
  if (missing > 0) {
    if (other === undefined) return undefined
    members.push(...furtherMembers(compiler, facts, missing, other))
  }
  const count = { min: facts.minProperties, max: facts.maxProperties }
  return writeMembers(writer, ['{', '}'], members, other, count)
}

/** Properties that are not named. */
function othersRule(compiler: SchemaCompiler, facts: Facts): string | undefined {
  const { writer } = compiler
  if (facts.patterned.size > 0) return patternedRule(compiler, facts)
  if (facts.isClosed) return undefined
  const value = compiler.compile(facts.additional)
  if (value === undefined) return undefined
  const key = freeKeys(compiler, facts)
  return key && writer.rule(`${key} ":" ws ${value}`)
}

function patternedRule(compiler: SchemaCompiler, facts: Facts): string | undefined {
  const { writer, document } = compiler
  const pointer = pointerOf(facts, 'patternProperties')
  // a name may match several patterns, and one that is named as well
  const value = compiler.compile([...facts.patterned.values()].flat())
  const free = [...facts.patterned.keys()].filter((pattern) =>
    [...facts.properties.keys()].every((name) => !document.matches(pattern, name, pointer)),
  )
  if (value === undefined || free.length === 0) return undefined
  try {
    const keys = free.flatMap((pattern) => keysLike(compiler, facts, pattern))
    if (keys.length === 0) return undefined
    return writer.rule(`(${keys.join(' | ')}) ":" ws ${value}`)
  } catch (error) {
    if (error instanceof PatternProblem) throw refusedSchema(pointer, error.message)
    throw error
  }
}

/** Names that match a pattern, and keep to what is said of all names. */
function keysLike(compiler: SchemaCompiler, { names }: Facts, pattern: string): string[] {
  const { writer, document } = compiler
  if (names.length === 0) {
    return [`"\\"" ${patternRule(writer, pattern, { min: 0, max: Infinity })} "\\""`]
  }
  return alternativesOf(document, names).flatMap((way) => {
    const facts = factsOf(document, way)
    const { patterns } = facts
    if (isOfNumbers(facts)) return []
    return stringRule(compiler, { ...facts, patterns: [...patterns, pattern] }) ?? []
  })
}

/** Properties without names of their own that must come, each with a name that no other has. */
function furtherMembers(
  { writer }: SchemaCompiler,
  facts: Facts,
  count: number,
  other: string,
): Member[] {
  if (count === 1) return [{ rule: other, isRequired: true }]
  const isFree = facts.names.length === 0 && facts.patterned.size === 0
  if (count > letters || !isFree) {
    const pointer = pointerOf(facts, 'minProperties')
    const reason = `it asks for ${count} properties more than there are names`
    throw refusedSchema(pointer, reason)
  }
  const plain = keyRule(writer, facts.properties.keys())
  const value = other.length > 0 ? writer.bodyOf(other)?.slice(plain.length) : undefined
  const share = Math.floor(letters / count)
  return Array.from({ length: count }, (_, nth) => {
    const code = 'a'.charCodeAt(0) + nth * share
    const range = `[${String.fromCharCode(code)}-${String.fromCharCode(code + share - 1)}]`
    return { rule: writer.rule(`"\\"" ${range} [a-z0-9]{2,20} "\\""${value}`), isRequired: true }
  })
}
