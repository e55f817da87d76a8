import { isObject } from '../../../fields/fields.js'

type Schema = Readonly<Record<string, unknown>>

/** Whether a schema allows texts and nothing else. */
export function takesOnlyText(schema: unknown): boolean {
  if (!isObject(schema)) return false
  const { type, enum: values, anyOf, oneOf } = schema
  if (type !== undefined) return type === 'string'
  if (Array.isArray(values)) return values.every((value) => typeof value === 'string')
  const kinds = anyOf ?? oneOf
  return Array.isArray(kinds) && kinds.length > 0 && kinds.every(takesOnlyText)
}

/** What Python calls by other names. */
const constants: Readonly<Record<string, unknown>> = { True: true, False: false, None: null }

/**
 * The JSON of a value that a model wrote without quotes around texts.
 *
 * @param isTyped - whether it is known to be no text
 */
export function argumentJson(text: string, schema: unknown, isTyped = false): string {
  const trimmed = text.trim()
  if (!isTyped && takesOnlyText(schema)) return JSON.stringify(text)
  if (Object.hasOwn(constants, trimmed)) return JSON.stringify(constants[trimmed])
  try {
    const value: unknown = JSON.parse(trimmed)
    // a text in quotes is as the model wrote it, where a schema does not ask for another
    return typeof value === 'string' && !isTyped ? JSON.stringify(text) : trimmed
  } catch {
    return JSON.stringify(text)
  }
}

/** The schemas of a tool's arguments, by name. */
export function argumentSchemas(parameters: unknown): Schema {
  const properties = isObject(parameters) ? parameters['properties'] : undefined
  return isObject(properties) ? properties : {}
}
