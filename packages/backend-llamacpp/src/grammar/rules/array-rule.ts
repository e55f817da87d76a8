import type { Facts } from '../schema/facts.js'
import { maximumRepetitions } from '../gbnf/gbnf-writer.js'
import { jsonRule } from './json-rules.js'
import { refusedSchema } from '../refuse.js'
import type { SchemaCompiler } from '../schema/schema-compiler.js'
import { pointerOf } from './string-rule.js'

/** The arrays that are allowed as GBNF, or undefined when there is none. */
export function arrayRule(compiler: SchemaCompiler, facts: Facts): string | undefined {
  const { writer } = compiler
  for (const keyword of ['minItems', 'maxItems'] as const) {
    const value = facts[keyword]
    if (value <= maximumRepetitions || value === Infinity) continue
    const reason = `expected at most ${maximumRepetitions}, got ${value}`
    throw refusedSchema(pointerOf(facts, keyword), reason)
  }
  const { minItems: min } = facts
  const { elements, item } = rulesOf(compiler, facts)
  const max = item === undefined ? Math.min(facts.maxItems, elements.length) : facts.maxItems
  if (min > max) return undefined
  if (max === 0) return '"[]"'
  jsonRule(writer, 'ws')
  const listed = elements.slice(0, max)
  const more = item === undefined ? '' : writer.rule(`"," ws ${item}`)
  const restMin = Math.max(0, min - Math.max(1, listed.length))
  const restMax = max - Math.max(1, listed.length)
  let rest = item === undefined ? '' : writer.repeat(more, restMin, restMax)
  for (let index = listed.length - 1; index > 0; index--) {
    const one = `"," ws ${listed[index]} ${rest}`.trimEnd()
    rest = writer.rule(index < min ? one : `(${one})?`)
  }
  const all = `${listed[0] ?? item} ${rest}`.trimEnd()
  return min === 0 ? `"[" ws (${all} ws)? "]"` : `"[" ws ${all} ws "]"`
}

/** The rules of the elements by position and of all further ones, up to where none can be. */
function rulesOf(
  compiler: SchemaCompiler,
  { prefix, items, maxItems }: Facts,
): { readonly elements: readonly string[]; readonly item: string | undefined } {
  const elements: string[] = []
  for (const conjunction of prefix.slice(0, maxItems)) {
    const element = compiler.compile(conjunction)
    if (element === undefined) return { elements, item: undefined }
    elements.push(element)
  }
  return { elements, item: maxItems > elements.length ? compiler.compile(items) : undefined }
}
