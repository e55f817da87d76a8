import { entryOf } from '@cllm/core/defined'
import { formatPatterns } from '../rules/formats.js'
import { isMultiple, multipleSteps } from '../rules/decimals.js'
import { canonicalJson, type Conjunction, type Place } from './schema-document.js'
import { type Facts, memberOf, typeOf } from './facts.js'
import type { SchemaObject } from './schema-keywords.js'

/** Whether a value is valid by all of these schemas. */
export const accepts = (all: Conjunction, value: unknown): boolean =>
  all.every((place) => isValid(place, value))

/** The listed values of a way that all of its schemas allow; undefined if it lists none. */
export const listedValues = ({ values, places }: Facts): readonly unknown[] | undefined =>
  values && [...values.values()].filter((value) => accepts(places, value))

/**
 * Whether a value is valid by a schema; also false for a few values that `unevaluatedProperties` allows. Unlike a
 * general validator, it knows this compiler's own keywords, matches patterns in linear time, and spends the schema's
 * budget, as schemas come from clients.
 */
function isValid(place: Place, value: unknown): boolean {
  const { schema } = place
  place.spend(2)
  if (typeof schema === 'boolean') return schema
  const checks = [isListed, hasType, combines, isNumber, isText, isList, isObject]
  return checks.every((check) => check(place, schema, value))
}

type Check = (place: Place, schema: SchemaObject, value: unknown) => boolean

const isListed: Check = (place, { enum: list }, value) => {
  if (list === undefined) return true
  const text = canonicalJson(value)
  place.spend(1 + (text.length >> 3))
  return textsOf(list, place).has(text)
}

/** The values of lists as sets of texts, as a list is compared with many values. */
const listed = new WeakMap<readonly unknown[], ReadonlySet<string>>()

const textsOf = (list: readonly unknown[], place: Place): ReadonlySet<string> =>
  entryOf(listed, list, () => {
    const texts = list.map((one) => canonicalJson(one))
    for (const text of texts) place.spend(1 + (text.length >> 3))
    return new Set(texts)
  })

const hasType: Check = (_place, { type }, value) =>
  type === undefined ||
  type.includes(typeOf(value)) ||
  (type.includes('integer') && Number.isInteger(value))

const combines: Check = (place, schema, value) => {
  const holds = (...path: readonly (string | number)[]) => isValid(place.child(...path), value)
  const count = (keyword: 'allOf' | 'anyOf' | 'oneOf') =>
    [...schema[keyword]!.keys()].filter((index) => holds(keyword, index)).length
  if (!accepts(place.referred, value)) return false
  if (schema.allOf !== undefined && count('allOf') < schema.allOf.length) return false
  if (schema.anyOf !== undefined && count('anyOf') === 0) return false
  if (schema.oneOf !== undefined && count('oneOf') !== 1) return false
  if (schema.not !== undefined && holds('not')) return false
  if (schema.if === undefined) return true
  const side = holds('if') ? 'then' : 'else'
  return schema[side] === undefined || holds(side)
}

const isNumber: Check = (place, schema, value) => {
  if (typeof value !== 'number') return true
  const { minimum = -Infinity, maximum = Infinity, multipleOf } = schema
  const { exclusiveMinimum = -Infinity, exclusiveMaximum = Infinity } = schema
  if (value < minimum || value > maximum) return false
  if (value <= exclusiveMinimum || value >= exclusiveMaximum) return false
  if (multipleOf === undefined) return true
  place.spend(multipleSteps)
  return isMultiple(value, multipleOf)
}

const isText: Check = (place, schema, value) => {
  if (typeof value !== 'string') return true
  const { minLength = 0, maxLength = Infinity, pattern, format } = schema
  const { document, pointer } = place
  place.spend(value.length >> 3)
  const { length } = Array.from(value)
  if (length < minLength || length > maxLength) return false
  if (pattern !== undefined && !document.matches(pattern, value, `${pointer}/pattern`)) return false
  const [known] = format === undefined ? [] : formatPatterns(format)
  return known === undefined || document.matches(known, value, `${pointer}/format`)
}

const isList: Check = (place, schema, value) => {
  if (!Array.isArray(value)) return true
  const { minItems = 0, maxItems = Infinity, prefixItems = [], contains } = schema
  if (value.length < minItems || value.length > maxItems) return false
  place.spend(value.length >> 2)
  if (schema.uniqueItems === true && textsOf(value, place).size < value.length) return false
  const others = (['items', 'unevaluatedItems'] as const).flatMap((one) => place.own(one))
  const isEach = value.every((item, index) =>
    index < prefixItems.length
      ? isValid(place.child('prefixItems', index), item)
      : accepts(others, item),
  )
  if (!isEach || contains === undefined) return isEach
  const { minContains = 1, maxContains = Infinity } = schema
  const child = place.child('contains')
  const found = value.filter((item) => isValid(child, item)).length
  return found >= minContains && found <= maxContains
}

const more = ['additionalProperties', 'unevaluatedProperties'] as const

const isObject: Check = (place, schema, value) => {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return true
  const members = Object.entries(value)
  place.spend(members.length)
  const has = (name: string) => Object.hasOwn(value, name)
  const { required = [], minProperties = 0, maxProperties = Infinity } = schema
  if (members.length < minProperties || members.length > maxProperties) return false
  place.spend(place.size >> 3)
  if (!required.every((name) => has(name))) return false
  const asked = Object.entries(schema.dependentRequired ?? {})
  if (asked.some(([name, others]) => has(name) && !others.every((one) => has(one)))) return false
  const depends = Object.keys(schema.dependentSchemas ?? {}).filter((name) => has(name))
  const holds = (name: string) => isValid(place.child('dependentSchemas', name), value)
  if (!depends.every(holds)) return false
  return members.every(
    ([name, member]) =>
      accepts(place.own('propertyNames'), name) && accepts(memberOf(place, name, more), member),
  )
}
