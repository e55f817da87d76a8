import { precision } from '../rules/decimals.js'

type Keywords = Readonly<Record<string, unknown>>

/** Keywords of other dialects, which the result spells as draft 2020-12 does or has no need for. */
const others = new Set([
  'nullable',
  'additionalItems',
  'dependencies',
  '$recursiveRef',
  'contentMediaType',
  'contentEncoding',
])

/**
 * The same schema in the words of draft 2020-12: OpenAPI 3.0 has `nullable` and limits that are true or
 * false, drafts before 2020 have lists of `items`.
 */
export function readDialects(schema: Keywords): Keywords {
  const read = readers.reduce((words, reader) => ({ ...words, ...reader(words) }), schema)
  const kept = Object.entries(read).filter(
    ([name, value]) => value !== undefined && !others.has(name),
  )
  return Object.fromEntries(kept)
}

/** Each says what changes in the words that those before have left. */
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

/** OpenAPI 3.0: beside a `type`; an `enum` has null among its values, or there is none. */
function nullableType({ nullable, type }: Keywords): Keywords {
  if (nullable !== true || type === undefined) return {}
  const types: unknown[] = Array.isArray(type) ? type : [type]
  return { type: types.includes('null') ? types : [...types, 'null'] }
}

/** OpenAPI 3.0 and draft 4: `exclusiveMinimum: true` says how `minimum` is meant. */
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

/** Before 2020 a list of `items` was what `prefixItems` is now, and `additionalItems` were the rest. */
function oldItems({ items, additionalItems }: Keywords): Keywords {
  if (!Array.isArray(items)) return {}
  return { prefixItems: items.length === 0 ? undefined : items, items: additionalItems }
}

/** OpenAPI: what tells alternatives apart is always there, though it has a default, as with pydantic. */
function withDiscriminator({ discriminator, oneOf, anyOf, required }: Keywords): Keywords {
  const { propertyName } = (discriminator ?? {}) as { readonly propertyName?: unknown }
  if (typeof propertyName !== 'string' || (oneOf ?? anyOf) === undefined) return {}
  const given = Array.isArray(required) ? (required as unknown[]) : []
  return { required: [...new Set([...given, propertyName])] }
}

/** Before 2019 names and schemas were one keyword. */
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

/** Encodings are formats here; the text of a JSON value is what `contentSchema` says of the value. */
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

/** Integers of so many bits, as OpenAPI and what writes Rust's and Go's types have them. */
const integerFormat = /^(u?)int(8|16|32|64)?$/

/** Limits of the integers that a `format` names. */
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

/** How pydantic begins the pattern of a decimal number that is written as a text. */
const begin = String.raw`^(?!^[-+.]*$)[+-]?0*`
/** A size in bytes: its units are in no schema, and it may be an integer too. */
const byteSize = String.raw`^\s*(\d*\.?\d+)\s*(\w+)?`

/**
 * What pydantic says by patterns in the words of draft 2020-12. Its Decimal is a number, whose limits stand
 * beside it, or a text, whose pattern says how many digits there are; what is valid keeps to both. So where
 * one of them says something, it is written as a number that does.
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

/** What the pattern says of the digits before and behind the point, as limits of a number. */
function digitsOf(pattern: string, number: Keywords): Keywords {
  const rest = pattern.slice(begin.length)
  const whole = /^\(\?:\\d\{0,(\d+)\}\|/.exec(rest)?.[1]
  // where only all digits together are counted, there is no point
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
