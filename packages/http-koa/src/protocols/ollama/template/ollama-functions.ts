import { TemplateObject, type TemplateFunction } from './template-values.js'

const dayMs = 24 * 3_600_000

/**
 * What Ollama's templates can call beside Go's functions and `json`.
 *
 * @param now - milliseconds since the epoch
 */
export const ollamaFunctions = (now: number): Readonly<Record<string, TemplateFunction>> => ({
  currentDate: () => dateText(now),
  yesterdayDate: () => dateText(now - dayMs),
  toTypeScriptType: (property) => {
    const value: unknown = property
    return value instanceof TemplateObject ? typeScriptType(value.shown) : 'any'
  },
})

/** A day as `2026-11-23`, where this server is. */
function dateText(milliseconds: number): string {
  const date = new Date(milliseconds)
  const numbers = [date.getFullYear(), date.getMonth() + 1, date.getDate()]
  return numbers.map((number) => String(number).padStart(2, '0')).join('-')
}

const typeNames: Readonly<Record<string, string>> = {
  string: 'string',
  number: 'number',
  integer: 'number',
  boolean: 'boolean',
  array: 'any[]',
  object: 'Record<string, any>',
  null: 'null',
}

/** The type of a tool's argument, by its schema. */
function typeScriptType(schema: unknown): string {
  const { type = [], anyOf } = (schema ?? {}) as { type?: unknown; anyOf?: unknown }
  // one level, as deep as Ollama's own tools are
  const kinds = Array.isArray(anyOf)
    ? (anyOf as unknown[]).flatMap((one) => typesOf((one as { type?: unknown } | null)?.type))
    : typesOf(type)
  return kinds.map((kind) => typeNames[kind] ?? 'any').join(' | ') || 'any'
}

const typesOf = (type: unknown): string[] => (Array.isArray(type) ? type : [type]).map(String)
