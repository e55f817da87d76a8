import type { Facts } from '../schema/facts.js'
import { literal } from '../gbnf/gbnf-writer.js'
import { jsonRule } from './json-rules.js'
import { keyRule } from './key-rule.js'
import type { SchemaCompiler } from '../schema/schema-compiler.js'

/** A property that may be written. */
interface Member {
  /** The rule of the name with its value. */
  readonly rule: string
  readonly isRequired: boolean
}

/** The objects that are allowed as GBNF, or undefined when there is none. */
export function objectRule(compiler: SchemaCompiler, facts: Facts): string | undefined {
  const { writer } = compiler
  const { required, properties } = facts
  jsonRule(writer, 'ws')
  const members: Member[] = []
  for (const [name, conjunction] of properties) {
    const value = compiler.compile(conjunction)
    const isRequired = required.has(name)
    if (value === undefined && isRequired) return undefined
    if (value === undefined) continue
    const rule = writer.rule(`${literal(JSON.stringify(name))} ":" ws ${value}`)
    members.push({ rule, isRequired })
  }
  const value = compiler.compile(facts.additional)
  const other = value && writer.rule(`${keyRule(writer, properties.keys())} ":" ws ${value}`)
  return writeObject(compiler, members, other)
}

/**
 * The members in their order, each optional one or not, then any number of others. Rules are made
 * from the last member to the first, with and without the comma in front. The
 * comma comes before the choice between members, so that a text has few readings.
 */
function writeObject(
  { writer }: SchemaCompiler,
  members: readonly Member[],
  other: string | undefined,
): string {
  let after = other === undefined ? '' : writer.rule(`("," ws ${other})*`)
  let first = other === undefined ? undefined : writer.rule(`${other} ${after}`)
  let canBeEmpty = true
  for (const { rule, isRequired } of members.toReversed()) {
    const here = writer.rule(`${rule} ${after}`.trimEnd())
    first = isRequired || first === undefined ? here : writer.rule(`${here} | ${first}`)
    if (isRequired) canBeEmpty = false
    after = writer.rule(canBeEmpty ? `("," ws ${first})?` : `"," ws ${first}`)
  }
  if (first === undefined) return '"{}"'
  return canBeEmpty ? `"{" ws (${first} ws)? "}"` : `"{" ws ${first} ws "}"`
}
