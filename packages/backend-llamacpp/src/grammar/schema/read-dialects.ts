import { precision } from '../rules/decimals.js'

type Keywords = Readonly<Record<string, unknown>>

/** Keywords of other dialects, which the result expresses in draft 2020-12 or does not need. */
const others = new Set([
  'nullable',
  'additionalItems',
  'dependencies',
  '$recursiveRef',
  'contentMediaType',
  'contentEncoding',
])

/**
 * Translates a schema to draft 2020-12: OpenAPI 3.0 has `nullable` and limits that are true or false, drafts before
 * 2020 have lists of `items`.
 */
export function readDialects(schema: Keywords): Keywords {
  const read = readers.reduce((words, reader) => ({ ...words, ...reader(words) }), schema)
  const kept = Object.entries(read).filter(
    ([name, value]) => value !== undefined && !others.has(name),
  )
  return Object.fromEntries(kept)
}

/** Each returns the keywords to change, given the result of the ones before it. */
const readers: readonly ((words: Keywords) => Keywords)[] = [
  readPydantic,
  nullableType,
  oldLimits,
  oldItems,
  readIntegers,
  withDiscriminator,
  // draft 3 had `required: true` at the property
  ({ required }) => (typeof required === 'boolean' ? { required: undefined } : {}),
  dependenciesOf,
  contentOf,
  ({ $recursiveRef }) => ($recursiveRef === undefined ? {} : { $dynamicRef: $recursiveRef }),
]

/** OpenAPI 3.0: `nullable` adds null to `type`. It does not change an `enum`, which must list null itself. */
function nullableType({ nullable, type }: Keywords): Keywords {
  if (nullable !== true || type === undefined) return {}
  const types: unknown[] = Array.isArray(type) ? type : [type]
  return { type: types.includes('null') ? types : [...types, 'null'] }
}

/** OpenAPI 3.0 and draft 4: `exclusiveMinimum: true` makes `minimum` exclusive. */
function oldLimits(schema: Keywords): Keywords {
  const read = (exclusive: string, inclusive: string): Keywords => {
    const given = schema[exclusive]
    if (typeof given !== 'boolean') return {}
    const limit = schema[inclusive]
    return given && limit !== undefined
      ? { [exclusive]: limit, [inclusive]: undefined }
      : { [exclusive]: undefined }
  }
  return {
    ...read('exclusiveMinimum', 'minimum'),
    ...read('exclusiveMaximum', 'maximum'),
  }
}

/** Before 2020 a list in `items` had today's meaning of `prefixItems`, and `additionalItems` applied to the rest. */
function oldItems({ items, additionalItems }: Keywords): Keywords {
  if (!Array.isArray(items)) return {}
  return { prefixItems: items.length === 0 ? undefined : items, items: additionalItems }
}

/** OpenAPI: the discriminator is always required, even if it has a default, as with pydantic. */
function withDiscriminator({ discriminator, oneOf, anyOf, required }: Keywords): Keywords {
  const { propertyName } = (discriminator ?? {}) as { readonly propertyName?: unknown }
  if (typeof propertyName !== 'string' || (oneOf ?? anyOf) === undefined) return {}
  const given = Array.isArray(required) ? (required as unknown[]) : []
  return { required: [...new Set([...given, propertyName])] }
}

/** Before 2019 `dependentRequired` and `dependentSchemas` were one keyword. */
function dependenciesOf({ dependencies, dependentRequired, dependentSchemas }: Keywords): Keywords {
  if (typeof dependencies !== 'object' || dependencies === null) return {}
  const all = Object.entries(dependencies)
  const named = all.filter(([, value]) => Array.isArray(value))
  const schemas = all.filter(([, value]) => !Array.isArray(value))
  const added = (given: unknown, more: readonly [string, unknown][]) =>
    more.length === 0 ? given : { ...(given as object), ...Object.fromEntries(more) }
  return {
    dependentRequired: added(dependentRequired, named),
    dependentSchemas: added(dependentSchemas, schemas),
  }
}

/** Turns encodings into formats, and keeps `contentSchema` only for texts that contain a JSON value. */
function contentOf(schema: Keywords): Keywords {
  const { contentEncoding, contentMediaType, contentSchema = true } = schema
  const isFree = ['format', 'pattern', 'minLength', 'maxLength'].every((name) => !(name in schema))
  const none = { contentSchema: undefined }
  if (!isFree) return none
  if (typeof contentEncoding === 'string') {
    return { ...none, format: contentEncoding === 'base16' ? 'hex' : contentEncoding }
  }
  const isJson =
    typeof contentMediaType === 'string' && /^application\/json\b/.test(contentMediaType)
  return isJson ? { contentSchema } : none
}

/** The formats for integers of a number of bits, from OpenAPI and from generators for Rust's and Go's types. */
const integerFormat = /^(u?)int(8|16|32|64)?$/

/** Turns a `format` of integers into their limits. */
function readIntegers({ type, format, minimum, maximum }: Keywords): Keywords {
  const [name, sign, bits = '64'] = integerFormat.exec(String(format)) ?? []
  const types: unknown[] = Array.isArray(type) ? type : [type]
  if (name === undefined || !types.some((one) => one === 'integer' || one === 'number')) return {}
  const size = 2 ** Number(bits)
  const [least, most] = sign === 'u' ? [0, size - 1] : [-size / 2, size / 2 - 1]
  return {
    type: types.map((one) => (one === 'number' ? 'integer' : one)),
    minimum: stricter(Math.max, minimum, least),
    maximum: stricter(Math.min, maximum, most),
  }
}

const stricter = (pick: typeof Math.max, given: unknown, limit: number): number =>
  typeof given === 'number' ? pick(given, limit) : limit

/** The beginning of pydantic's pattern for a decimal number in a string. */
const begin = String.raw`^(?!^[-+.]*$)[+-]?0*`
/** pydantic's pattern for a size in bytes; it is left out, as no schema tells the units and an integer may be used. */
const byteSize = String.raw`^\s*(\d*\.?\d+)\s*(\w+)?`

/**
 * Translates pydantic's patterns to draft 2020-12. Its Decimal is either a number with limits, or a string whose
 * pattern limits the number of digits; a valid value keeps to both. So if there are limits, it is written as a number
 * that keeps to all of them.
 */
function readPydantic({ anyOf }: Keywords): Keywords {
  if (!Array.isArray(anyOf)) return {}
  const ways: unknown[] = anyOf.filter((way) => !isObject(way) || way['pattern'] !== byteSize)
  if (ways.length === 0) return {}
  const schemas = ways.filter(isObject)
  const text = schemas.find(isDecimalText)
  const number = schemas.find(({ type }) => type === 'number')
  if (text === undefined || number === undefined) return { anyOf: ways }
  const kept = { ...number, ...digitsOf(String(text['pattern']), number) }
  if (Object.keys(kept).every((keyword) => keyword === 'type')) return { anyOf: ways }
  return { anyOf: ways.flatMap((way) => (way === text ? [] : [way === number ? kept : way])) }
}

const isObject = (value: unknown): value is Keywords => typeof value === 'object' && value !== null

const isDecimalText = ({ type, pattern }: Keywords): boolean =>
  type === 'string' && typeof pattern === 'string' && pattern.startsWith(begin)

/** Turns the pattern's limits on the digits before and behind the point into limits of a number. */
function digitsOf(pattern: string, number: Keywords): Keywords {
  const rest = pattern.slice(begin.length)
  const whole = /^\(\?:\\d\{0,(\d+)\}\|/.exec(rest)?.[1]
  // a pattern that only counts all digits together has no part for the point
  const behind = /\\\.\??\\d\{0,(\d+)\}0\*\$/.exec(rest)?.[1] ?? (whole === undefined ? whole : '0')
  if (behind === undefined) return {}
  const decimals = Number(behind)
  const step = number['multipleOf'] === undefined ? { multipleOf: Number(`1e-${decimals}`) } : {}
  if (whole === undefined || Number(whole) + decimals > precision) return step
  const most = Number((10 ** Number(whole) - 10 ** -decimals).toFixed(decimals))
  return {
    ...step,
    minimum: stricter(Math.max, number['minimum'], -most),
    maximum: stricter(Math.min, number['maximum'], most),
  }
}
