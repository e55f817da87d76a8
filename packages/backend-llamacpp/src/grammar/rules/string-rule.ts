import type { Facts } from '../schema/facts.js'
import { formats } from './formats.js'
import { type GbnfWriter, maximumRepetitions } from '../gbnf/gbnf-writer.js'
import { jsonRule } from './json-rules.js'
import { PatternProblem } from '../pattern/parse-pattern.js'
import { patternRule } from '../pattern/pattern-rule.js'
import { refusedSchema } from '../refuse.js'
import type { SchemaObject } from '../schema/schema-keywords.js'

/** The strings that are allowed as GBNF, or undefined when there is none. */
export function stringRule(writer: GbnfWriter, facts: Facts): string | undefined {
  const { minLength: min, maxLength: max } = facts
  if (min > max) return undefined
  const patterns = patternsOf(facts)
  const [first, second] = patterns
  if (second !== undefined) {
    throw refusedSchema(second.pointer, 'several patterns or formats for one string')
  }
  if (first === undefined) {
    for (const keyword of ['minLength', 'maxLength'] as const) checkLength(facts, keyword)
    if (min === 0 && max === Infinity) return jsonRule(writer, 'string')
    return `"\\"" ${writer.repeat(jsonRule(writer, 'char'), min, max)} "\\""`
  }
  try {
    return `"\\"" ${patternRule(writer, first.pattern, { min, max })} "\\""`
  } catch (error) {
    if (error instanceof PatternProblem) throw refusedSchema(first.pointer, error.message)
    throw error
  }
}

function checkLength(facts: Facts, keyword: 'minLength' | 'maxLength'): void {
  const value = facts[keyword]
  if (value <= maximumRepetitions || value === Infinity) return
  const reason = `expected at most ${maximumRepetitions}, got ${value}`
  throw refusedSchema(pointerOf(facts, keyword), reason)
}

/** The patterns, formats among them, and where they are. */
function patternsOf(facts: Facts): { readonly pattern: string; readonly pointer: string }[] {
  return [
    ...facts.patterns.map((pattern) => ({ pattern, pointer: pointerOf(facts, 'pattern') })),
    ...facts.formats.map((format) => {
      const pointer = pointerOf(facts, 'format')
      const pattern = Object.hasOwn(formats, format) ? formats[format] : undefined
      if (pattern !== undefined) return { pattern, pointer }
      const known = Object.keys(formats).join(', ')
      throw refusedSchema(
        pointer,
        `the format ${format} is not supported; supported formats: ${known}`,
      )
    }),
  ]
}

/** Where a keyword is that some of the schemas have. */
export function pointerOf({ places }: Pick<Facts, 'places'>, keyword: keyof SchemaObject): string {
  const place = places.find(({ schema }) => Object.hasOwn(schema as SchemaObject, keyword))
  return place === undefined ? '#' : `${place.pointer}/${keyword}`
}
