import { readPydantic } from './read-decimal.js'

type Keywords = Readonly<Record<string, unknown>>

/** Keywords of other dialects, which the result spells as draft 2020-12 does or has no need for. */
const others = new Set([
  'nullable',
  'additionalItems',
  'dependencies',
  '$recursiveRef',
  'contentMediaType',
  'contentEncoding',
  'contentSchema',
])

/**
 * The same schema in the words of draft 2020-12: OpenAPI 3.0 has `nullable` and limits that are true or
 * false, drafts before 2020 have lists of `items`.
 */
export function readDialects(schema: Keywords): Keywords {
  const kept = Object.fromEntries(Object.entries(schema).filter(([name]) => !others.has(name)))
  return {
    ...readPydantic(kept),
    ...nullableType(schema),
    ...oldLimits(schema),
    ...oldItems(schema),
    ...readIntegers(schema),
    ...requiredOf(withDiscriminator(schema)),
    ...dependenciesOf(schema),
    ...contentOf(schema),
    ...('$recursiveRef' in schema ? { $dynamicRef: schema['$recursiveRef'] } : {}),
  }
}

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
function withDiscriminator(schema: Keywords): Keywords {
  const { discriminator, oneOf, anyOf, required } = schema
  const { propertyName } = (discriminator ?? {}) as { readonly propertyName?: unknown }
  if (typeof propertyName !== 'string' || (oneOf ?? anyOf) === undefined) return schema
  const given = Array.isArray(required) ? (required as unknown[]) : []
  return { ...schema, required: [...new Set([...given, propertyName])] }
}

/** Draft 3 had `required: true` at the property. */
function requiredOf({ required }: Keywords): Keywords {
  if (required === undefined) return {}
  return { required: typeof required === 'boolean' ? undefined : required }
}

/** Before 2019 names and schemas were one keyword. */
function dependenciesOf({ dependencies, dependentRequired, dependentSchemas }: Keywords): Keywords {
  if (typeof dependencies !== 'object' || dependencies === null) return {}
  const all = Object.entries(dependencies)
  const named = all.filter(([, value]) => Array.isArray(value))
  const schemas = all.filter(([, value]) => !Array.isArray(value))
  return {
    ...(named.length === 0
      ? {}
      : { dependentRequired: { ...(dependentRequired as object), ...Object.fromEntries(named) } }),
    ...(schemas.length === 0
      ? {}
      : { dependentSchemas: { ...(dependentSchemas as object), ...Object.fromEntries(schemas) } }),
  }
}

/** Encodings are formats here; the text of a JSON value is what `contentSchema` says of the value. */
function contentOf(schema: Keywords): Keywords {
  const { contentEncoding, contentMediaType, contentSchema = true } = schema
  const isFree = ['format', 'pattern', 'minLength', 'maxLength'].every((name) => !(name in schema))
  if (!isFree) return {}
  if (typeof contentEncoding === 'string') {
    return Object.hasOwn(encodings, contentEncoding) ? { format: encodings[contentEncoding] } : {}
  }
  const isJson =
    typeof contentMediaType === 'string' && /^application\/json\b/.test(contentMediaType)
  return isJson ? { contentSchema } : {}
}

const encodings: Readonly<Record<string, string>> = {
  base64: 'base64',
  base64url: 'base64url',
  base16: 'hex',
}

/** The integers that a format of OpenAPI's, or of what writes Rust's and Go's types, means. */
const ranges: Readonly<Record<string, readonly [minimum: number, maximum: number]>> = {
  int8: [-128, 127],
  int16: [-32_768, 32_767],
  int32: [-2_147_483_648, 2_147_483_647],
  int64: [-Infinity, Infinity],
  uint8: [0, 255],
  uint16: [0, 65_535],
  uint32: [0, 4_294_967_295],
  uint64: [0, Infinity],
  uint: [0, Infinity],
}

/** Limits of the integers that a `format` names. */
function readIntegers({ type, format, minimum, maximum }: Keywords): Keywords {
  if (typeof format !== 'string' || !Object.hasOwn(ranges, format)) return {}
  const [least, most] = ranges[format]!
  const types: unknown[] = Array.isArray(type) ? type : [type]
  if (!types.includes('integer') && !types.includes('number')) return {}
  return {
    type: types.map((one) => (one === 'number' ? 'integer' : one)),
    ...limit('minimum', least, minimum, Math.max),
    ...limit('maximum', most, maximum, Math.min),
  }
}

function limit(
  keyword: string,
  value: number,
  given: unknown,
  stricter: (a: number, b: number) => number,
): Keywords {
  if (!Number.isFinite(value)) return {}
  return { [keyword]: typeof given === 'number' ? stricter(value, given) : value }
}
