import { canonicalJson } from './canonical-json.js'
import { type Facts, factsOf, typeOf } from './facts.js'
import { formatPattern } from '../rules/formats.js'
import { isMultiple, multipleSteps } from '../rules/multiple-rule.js'
import { isEachOnce, isValid } from './is-valid.js'
import { alternativesOf } from './ways/schema-alternatives.js'
import { type Conjunction, pointerOf, type SchemaDocument, whereOf } from './schema-document.js'

/** Whether a value is valid by all of these schemas. */
export const accepts = (document: SchemaDocument, all: Conjunction, value: unknown): boolean =>
  all.every((place) => isValid(document, place, value))

/** Whether a schema of names is one of numbers, as zod has it for numeric keys: names then spell one. */
export const isOfNumbers = ({ types = [] }: Facts): boolean =>
  types.includes('number') && !types.includes('string')

const spelled = /^(?:0|-?[1-9][0-9]{0,14})$/

/** Whether a property may have this name. */
export function acceptsName(document: SchemaDocument, names: Conjunction, name: string): boolean {
  return alternativesOf(document, names).some((way) => {
    const facts = factsOf(document, way)
    if (!isOfNumbers(facts)) return keepsTo(document, facts, name)
    return spelled.test(name) && keepsTo(document, facts, Number(name))
  })
}

/** Whether a value keeps to all that is said of it. */
export function keepsTo(document: SchemaDocument, facts: Facts, value: unknown): boolean {
  const { types, values } = facts
  const text = values === undefined ? '' : canonicalJson(value)
  const spend = document.budget.at(whereOf(facts.places))
  spend(1 + (text.length >> 3))
  if (types !== undefined && !types.includes(typeOf(value))) return false
  if (values !== undefined && !values.has(text)) return false
  if (typeof value === 'number') {
    spend(multipleSteps * facts.multiples.length)
    return isInRange(facts, value)
  }
  if (typeof value === 'string') return isLikeStrings(document, facts, value)
  if (Array.isArray(value)) {
    const { minItems, maxItems, prefix, items, isUnique } = facts
    if (value.length < minItems || value.length > maxItems) return false
    spend(value.length >> 2)
    if (isUnique && !isEachOnce(value, spend)) return false
    return value.every((item, index) => accepts(document, prefix[index] ?? items, item))
  }
  if (typeof value !== 'object' || value === null) return true
  spend(facts.required.size >> 3)
  if ([...facts.required].some((name) => !Object.hasOwn(value, name))) return false
  const { minProperties, maxProperties, names } = facts
  const members = Object.entries(value)
  spend(members.length)
  if (members.length < minProperties || members.length > maxProperties) return false
  return members.every(
    ([name, member]) =>
      acceptsName(document, names, name) &&
      accepts(document, memberOf(document, facts, name), member),
  )
}

function memberOf(document: SchemaDocument, facts: Facts, name: string): Conjunction {
  const named = facts.properties.get(name)
  if (named !== undefined) return named
  const pointer = pointerOf(facts, 'patternProperties')
  const matching = [...facts.patterned].filter(([pattern]) =>
    document.matches(pattern, name, pointer),
  )
  return matching.length > 0 ? matching.flatMap(([, all]) => all) : facts.additional
}

function isInRange({ isInteger, minimum, maximum, multiples }: Facts, value: number): boolean {
  if (isInteger && !Number.isInteger(value)) return false
  if (!multiples.every((step) => isMultiple(value, step))) return false
  const isAbove =
    minimum === undefined || (minimum.isExclusive ? value > minimum.value : value >= minimum.value)
  const isBelow =
    maximum === undefined || (maximum.isExclusive ? value < maximum.value : value <= maximum.value)
  return isAbove && isBelow
}

function isLikeStrings(document: SchemaDocument, facts: Facts, value: string): boolean {
  const { minLength, maxLength, patterns, formats: named } = facts
  document.budget.spend(value.length >> 3, whereOf(facts.places))
  const { length } = Array.from(value)
  if (length < minLength || length > maxLength) return false
  const known = named.flatMap((format) => formatPattern(format) ?? [])
  return [
    ...patterns.map((pattern) => [pattern, pointerOf(facts, 'pattern')] as const),
    ...known.map((pattern) => [pattern, pointerOf(facts, 'format')] as const),
  ].every(([pattern, pointer]) => document.matches(pattern, value, pointer))
}
