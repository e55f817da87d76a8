import { entryOf } from '@cllm/core'
import { formatPattern } from '../rules/formats.js'
import { isMultiple, multipleSteps } from '../rules/decimals.js'
import {
  canonicalJson,
  type Conjunction,
  type Place,
  type SchemaDocument,
} from './schema-document.js'
import { type Facts, memberOf, typeOf } from './facts.js'
import type { Spend } from '../refuse.js'
import type { SchemaObject } from './schema-keywords.js'

/** Whether a value is valid by all of these schemas. */
export const accepts = (document: SchemaDocument, all: Conjunction, value: unknown): boolean =>
  all.every((place) => isValid(document, place, value))

/** The values that a way lists, as far as all of its schemas allow them; undefined where it lists none. */
export const listedValues = (
  document: SchemaDocument,
  { values, places }: Facts,
): readonly unknown[] | undefined =>
  values && [...values.values()].filter((value) => accepts(document, places, value))

/**
 * Whether a value is valid by a schema; false, too, for few that `unevaluatedProperties` allows. It knows
 * the keywords that this compiler writes itself, matches patterns in linear time and spends of the schema's
 * budget, as schemas come from clients: a general validator does none of these.
 */
function isValid(document: SchemaDocument, place: Place, value: unknown): boolean {
  const { pointer, schema } = place
  document.budget.spend(2, pointer)
  if (typeof schema === 'boolean') return schema
  const checks = [isListed, hasType, combines, isNumber, isText, isList, isObject]
  return checks.every((check) => check(document, place, schema, value))
}

type Check = (
  document: SchemaDocument,
  place: Place,
  schema: SchemaObject,
  value: unknown,
) => boolean

const isListed: Check = ({ budget }, { pointer }, { enum: list }, value) => {
  if (list === undefined) return true
  const text = canonicalJson(value)
  budget.spend(1 + (text.length >> 3), pointer)
  return textsOf(list, budget.at(pointer)).has(text)
}

/** What the values of lists are, which are compared with many. */
const listed = new WeakMap<readonly unknown[], ReadonlySet<string>>()

const textsOf = (list: readonly unknown[], spend: Spend): ReadonlySet<string> =>
  entryOf(listed, list, () => {
    const texts = new Set<string>()
    for (const one of list) {
      const text = canonicalJson(one)
      spend(1 + (text.length >> 3))
      texts.add(text)
    }
    return texts
  })

const hasType: Check = (_document, _place, { type }, value) =>
  type === undefined ||
  type.includes(typeOf(value)) ||
  (type.includes('integer') && Number.isInteger(value))

const combines: Check = (document, place, schema, value) => {
  const holds = (...path: readonly (string | number)[]) =>
    isValid(document, document.child(place, ...path), value)
  const count = (keyword: 'allOf' | 'anyOf' | 'oneOf') =>
    [...schema[keyword]!.keys()].filter((index) => holds(keyword, index)).length
  if (!accepts(document, document.referred(place), value)) return false
  if (schema.allOf !== undefined && count('allOf') < schema.allOf.length) return false
  if (schema.anyOf !== undefined && count('anyOf') === 0) return false
  if (schema.oneOf !== undefined && count('oneOf') !== 1) return false
  if (schema.not !== undefined && holds('not')) return false
  if (schema.if === undefined) return true
  const side = holds('if') ? 'then' : 'else'
  return schema[side] === undefined || holds(side)
}

const isNumber: Check = ({ budget }, { pointer }, schema, value) => {
  if (typeof value !== 'number') return true
  const { minimum = -Infinity, maximum = Infinity, multipleOf } = schema
  const { exclusiveMinimum = -Infinity, exclusiveMaximum = Infinity } = schema
  if (value < minimum || value > maximum) return false
  if (value <= exclusiveMinimum || value >= exclusiveMaximum) return false
  if (multipleOf === undefined) return true
  budget.spend(multipleSteps, pointer)
  return isMultiple(value, multipleOf)
}

const isText: Check = (document, { pointer }, schema, value) => {
  if (typeof value !== 'string') return true
  const { minLength = 0, maxLength = Infinity, pattern, format } = schema
  document.budget.spend(value.length >> 3, pointer)
  const { length } = Array.from(value)
  if (length < minLength || length > maxLength) return false
  if (pattern !== undefined && !document.matches(pattern, value, `${pointer}/pattern`)) return false
  const known = format === undefined ? undefined : formatPattern(format)
  return known === undefined || document.matches(known, value, `${pointer}/format`)
}

const isList: Check = (document, place, schema, value) => {
  if (!Array.isArray(value)) return true
  const { minItems = 0, maxItems = Infinity, prefixItems = [], contains } = schema
  if (value.length < minItems || value.length > maxItems) return false
  const spend = document.budget.at(place.pointer)
  spend(value.length >> 2)
  if (schema.uniqueItems === true && textsOf(value, spend).size < value.length) return false
  const others = (['items', 'unevaluatedItems'] as const).flatMap((one) => document.own(place, one))
  const isEach = value.every((item, index) =>
    index < prefixItems.length
      ? isValid(document, document.child(place, 'prefixItems', index), item)
      : accepts(document, others, item),
  )
  if (!isEach || contains === undefined) return isEach
  const { minContains = 1, maxContains = Infinity } = schema
  const child = document.child(place, 'contains')
  const found = value.filter((item) => isValid(document, child, item)).length
  return found >= minContains && found <= maxContains
}

const more = ['additionalProperties', 'unevaluatedProperties'] as const

const isObject: Check = (document, place, schema, value) => {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return true
  const members = Object.entries(value)
  document.budget.spend(members.length, place.pointer)
  const has = (name: string) => Object.hasOwn(value, name)
  const { required = [], minProperties = 0, maxProperties = Infinity } = schema
  if (members.length < minProperties || members.length > maxProperties) return false
  document.budget.spend(place.size >> 3, place.pointer)
  if (!required.every((name) => has(name))) return false
  const asked = Object.entries(schema.dependentRequired ?? {})
  if (asked.some(([name, others]) => has(name) && !others.every((one) => has(one)))) return false
  const depends = Object.keys(schema.dependentSchemas ?? {}).filter((name) => has(name))
  const holds = (name: string) =>
    isValid(document, document.child(place, 'dependentSchemas', name), value)
  if (!depends.every(holds)) return false
  return members.every(
    ([name, member]) =>
      accepts(document, document.own(place, 'propertyNames'), name) &&
      accepts(document, memberOf(document, place, name, more), member),
  )
}
