import type { Conjunction, Place, SchemaDocument } from '../schema-document.js'
import type { SchemaObject } from '../schema-keywords.js'

/**
 * A way with what `unevaluatedProperties` and `unevaluatedItems` say in it: they mean what no schema
 * of the way has named, so there they are `additionalProperties` and `items`.
 */
export function withUnevaluated(
  document: SchemaDocument,
  { pointer }: Place,
  { unevaluatedProperties: members, unevaluatedItems: elements }: SchemaObject,
  way: Conjunction,
): Conjunction {
  if (members === undefined && elements === undefined) return way
  // what a negation asks for evaluates nothing
  const schemas = way
    .filter((place) => !/\^\d/.test(place.pointer))
    .map(({ schema }) => schema as SchemaObject)
  const add = (schema: unknown): Place => {
    const text = JSON.stringify(schema)
    document.budget.spend(text.length >> 3, pointer)
    return document.place(`${pointer}^${text}`, schema)
  }
  const isOpen = (keyword: 'additionalProperties' | 'items'): boolean =>
    schemas.every((one) => one[keyword] === undefined)
  const added: Place[] = []
  if (members !== undefined && isOpen('additionalProperties')) {
    added.push(add(otherMembers(schemas, members)))
  }
  if (elements !== undefined && isOpen('items')) added.push(add(otherElements(schemas, elements)))
  return [...way, ...added]
}

function otherMembers(schemas: readonly SchemaObject[], additionalProperties: unknown) {
  const all = (keyword: 'properties' | 'patternProperties') =>
    Object.fromEntries(
      schemas.flatMap((schema) => Object.keys(schema[keyword] ?? {})).map((name) => [name, true]),
    )
  return {
    properties: all('properties'),
    patternProperties: all('patternProperties'),
    additionalProperties,
  }
}

/** What `contains` finds is evaluated. */
function otherElements(schemas: readonly SchemaObject[], others: unknown) {
  const length = Math.max(0, ...schemas.map(({ prefixItems }) => prefixItems?.length ?? 0))
  const found = schemas.flatMap(({ contains }) => (contains === undefined ? [] : [contains]))
  return {
    ...(length > 0 && { prefixItems: Array.from({ length }, () => true) }),
    items: found.length === 0 ? others : { anyOf: [...found, others] },
  }
}
