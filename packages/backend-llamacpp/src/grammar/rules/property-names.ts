import { type Facts, factsOf } from '../schema/facts.js'
import { keyRule } from './key-rule.js'
import { numberRule } from './number-rule.js'
import { alternativesOf } from '../schema/schema-alternatives.js'
import type { SchemaCompiler } from '../schema/schema-compiler.js'
import type { Conjunction, SchemaDocument } from '../schema/schema-document.js'
import { isOfNumbers, keepsTo } from '../schema/accepts.js'
import { stringRule } from './string-rule.js'

/** The names that an `enum` or `const` allows; undefined where there is none. */
export function listedNames(
  document: SchemaDocument,
  names: Conjunction,
): readonly string[] | undefined {
  if (names.length === 0) return undefined
  const listed: string[] = []
  for (const way of alternativesOf(document, names)) {
    const facts = factsOf(document, way)
    if (facts.values === undefined) return undefined
    for (const value of facts.values.values()) {
      const isName = typeof value === 'string' || (isOfNumbers(facts) && Number.isInteger(value))
      if (isName && keepsTo(document, facts, value)) listed.push(String(value))
    }
  }
  return [...new Set(listed)]
}

/**
 * Names of properties that are not named, as GBNF; undefined when there is none. Where they must keep
 * to something, there is none beside properties that are named.
 */
export function freeKeys(compiler: SchemaCompiler, facts: Facts): string | undefined {
  const { writer, document } = compiler
  const { names, properties } = facts
  const ways = alternativesOf(document, names).map((way) => factsOf(document, way))
  if (ways.some(isAnyText)) return keyRule(writer, properties.keys())
  if (properties.size > 0) return undefined
  const keys = ways.flatMap((way) => numericKeys(compiler, way) ?? stringRule(compiler, way) ?? [])
  return keys.length === 0 ? undefined : writer.rule(keys.join(' | '))
}

/** Names that spell an integer. */
function numericKeys({ writer }: SchemaCompiler, way: Facts): string | undefined {
  if (!isOfNumbers(way)) return undefined
  const digits = numberRule(writer, { ...way, isInteger: true })
  return digits && `"\\"" ${digits} "\\""`
}

function isAnyText({ types, values, patterns, formats, minLength, maxLength }: Facts): boolean {
  const isText = types === undefined || types.includes('string')
  const hasRules = values !== undefined || patterns.length + formats.length > 0
  return isText && !hasRules && minLength === 0 && maxLength === Infinity
}
