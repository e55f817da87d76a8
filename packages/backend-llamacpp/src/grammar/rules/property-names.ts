import { type Facts, factsOf } from '../schema/facts.js'
import { keyRule } from './key-rule.js'
import { alternativesOf } from '../schema/schema-alternatives.js'
import type { SchemaCompiler } from '../schema/schema-compiler.js'
import type { Conjunction, SchemaDocument } from '../schema/schema-document.js'
import { keepsTo } from '../schema/accepts.js'
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
      if (typeof value === 'string' && keepsTo(document, facts, value)) listed.push(value)
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
  const keys = ways.flatMap((way) => stringRule(compiler, way) ?? [])
  return keys.length === 0 ? undefined : writer.rule(keys.join(' | '))
}

function isAnyText({ types, values, patterns, formats, minLength, maxLength }: Facts): boolean {
  const isText = types === undefined || types.includes('string')
  const hasRules = values !== undefined || patterns.length + formats.length > 0
  return isText && !hasRules && minLength === 0 && maxLength === Infinity
}
