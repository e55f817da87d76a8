import { canonicalJson } from './canonical-json.js'
import { type Facts, factsOf, typeOf } from './facts.js'
import { PatternProblem } from '../pattern/parse-pattern.js'
import { refusedSchema } from '../refuse.js'
import { alternativesOf } from './schema-alternatives.js'
import type { Conjunction, SchemaDocument } from './schema-document.js'
import { pointerOf } from '../rules/string-rule.js'

/** Whether a value is valid by all of these schemas. */
function accepts(document: SchemaDocument, all: Conjunction, value: unknown): boolean {
  return alternativesOf(document, all).some((way) =>
    keepsTo(document, factsOf(document, way), value),
  )
}

/** Whether a value keeps to all that is said of it. */
export function keepsTo(document: SchemaDocument, facts: Facts, value: unknown): boolean {
  const { types, values } = facts
  const text = values === undefined ? '' : canonicalJson(value)
  document.budget.spend(1 + (text.length >> 3), facts.places[0]?.pointer ?? '#')
  if (types !== undefined && !types.includes(typeOf(value))) return false
  if (values !== undefined && !values.has(text)) return false
  if (typeof value === 'number') return isInRange(facts, value)
  if (typeof value === 'string') return isLikeStrings(document, facts, value)
  if (Array.isArray(value)) {
    const { minItems, maxItems, prefix, items } = facts
    if (value.length < minItems || value.length > maxItems) return false
    return value.every((item, index) => accepts(document, prefix[index] ?? items, item))
  }
  if (typeof value !== 'object' || value === null) return true
  if ([...facts.required].some((name) => !Object.hasOwn(value, name))) return false
  return Object.entries(value).every(([name, member]) =>
    accepts(document, facts.properties.get(name) ?? facts.additional, member),
  )
}

function isInRange({ isInteger, minimum, maximum }: Facts, value: number): boolean {
  if (isInteger && !Number.isInteger(value)) return false
  const isAbove =
    minimum === undefined || (minimum.isExclusive ? value > minimum.value : value >= minimum.value)
  const isBelow =
    maximum === undefined || (maximum.isExclusive ? value < maximum.value : value <= maximum.value)
  return isAbove && isBelow
}

function isLikeStrings(document: SchemaDocument, facts: Facts, value: string): boolean {
  const { places, minLength, maxLength, patterns, formats } = facts
  if (formats.length > 0) {
    throw refusedSchema(places[0]?.pointer ?? '#', 'format beside enum or const is not supported')
  }
  const { length } = Array.from(value)
  if (length < minLength || length > maxLength) return false
  const pointer = pointerOf(facts, 'pattern')
  const spend = (steps: number) => document.budget.spend(steps, pointer)
  try {
    return patterns.every((pattern) => document.pattern(pattern).test(value, spend))
  } catch (error) {
    if (error instanceof PatternProblem) throw refusedSchema(pointer, error.message)
    throw error
  }
}
