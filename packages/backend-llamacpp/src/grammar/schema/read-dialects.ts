import { refusedSchema } from '../refuse.js'
import { readDecimal } from './read-decimal.js'

type Keywords = Readonly<Record<string, unknown>>

/** Keywords that can make an answer invalid, and that output is not kept to. */
const unkept = [
  'if',
  'dependentSchemas',
  'unevaluatedItems',
  '$dynamicRef',
  '$recursiveRef',
] as const

/** Keywords of other dialects, which the result spells as draft 2020-12 does or has no need for. */
const others = new Set([
  'nullable',
  'additionalItems',
  'dependencies',
  'dependentRequired',
  'unevaluatedProperties',
  'not',
  'then',
  'else',
])

/**
 * The same schema in the words of draft 2020-12: OpenAPI 3.0 has `nullable` and limits that are true or
 * false, drafts before 2020 have lists of `items`. False where nothing is valid.
 * @throws CllmError `invalid_constraint` for a keyword that output cannot be kept to
 */
export function readDialects(pointer: string, schema: Keywords): false | Keywords {
  for (const keyword of unkept) {
    if (!(keyword in schema)) continue
    if (keyword === 'if' && !('then' in schema) && !('else' in schema)) continue
    if (keyword === 'unevaluatedItems' && schema[keyword] !== undefined && isClosing(schema)) {
      continue
    }
    throw refusedSchema(`${pointer}/${keyword}`, `the keyword ${keyword} is not supported`)
  }
  const { not } = schema
  if (not === true || isEmpty(not)) return false
  if (not !== undefined && not !== false) {
    throw refusedSchema(`${pointer}/not`, 'the keyword not is not supported')
  }
  const kept = Object.fromEntries(Object.entries(schema).filter(([name]) => !others.has(name)))
  return {
    ...readDecimal(kept),
    ...nullableType(schema),
    ...oldLimits(schema),
    ...oldItems(schema),
    ...requiredOf(withDiscriminator(schema), pointer),
  }
}

/** Arrays end where their `prefixItems` do, so what nothing else has evaluated never comes. */
const isClosing = ({ prefixItems, items }: Keywords): boolean =>
  prefixItems !== undefined || items !== undefined

const isEmpty = (value: unknown): boolean =>
  typeof value === 'object' && value !== null && Object.keys(value).length === 0

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

/** What one property asks of others is asked always: narrower, and valid. */
function requiredOf(schema: Keywords, pointer: string): Keywords {
  const { required, dependentRequired, dependencies } = schema
  const names: unknown[] = []
  for (const asked of [dependentRequired, dependencies]) {
    if (typeof asked !== 'object' || asked === null) continue
    for (const value of Object.values(asked)) {
      if (!Array.isArray(value)) {
        throw refusedSchema(`${pointer}/dependencies`, 'schemas in dependencies are not supported')
      }
      names.push(...(value as unknown[]))
    }
  }
  // draft 3 had `required: true` at the property
  const given = typeof required === 'boolean' ? undefined : required
  if (names.length === 0) return 'required' in schema ? { required: given } : {}
  return {
    required: [...new Set([...(Array.isArray(given) ? (given as unknown[]) : []), ...names])],
  }
}
