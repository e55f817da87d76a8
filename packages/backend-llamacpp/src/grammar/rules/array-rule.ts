import { type Facts, waysOf } from '../schema/facts.js'
import { listedValues } from '../schema/is-valid.js'
import { pointerOf, type RuleCompiler } from '../schema/schema-document.js'
import { literal } from '../gbnf/gbnf-writer.js'
import { jsonRule, writeMembers } from './json-rules.js'
import { digitsWithin } from './decimals.js'
import { checkCount } from './string-rule.js'

/** The most different elements of an array with `uniqueItems` that are written so that none repeats. */
const mostUnique = 200

/** Writes the allowed arrays as GBNF; undefined if there are none. */
export function arrayRule(compiler: RuleCompiler, facts: Facts): string | undefined {
  const { writer } = compiler
  checkCount(facts, 'minItems')
  const { minItems: min } = facts
  const listed = facts.isUnique ? uniqueElements(facts) : undefined
  if (listed !== undefined) {
    jsonRule(writer, 'ws')
    const spend = compiler.document.budget.at(pointerOf(facts, 'uniqueItems'))
    const members = listed.map((value) => ({ rule: literal(value), isRequired: false }))
    return writeMembers(writer, ['[', ']'], members, undefined, { min, max: facts.maxItems }, spend)
  }
  const { elements, item } = rulesOf(compiler, facts)
  const max = item === undefined ? Math.min(facts.maxItems, elements.length) : facts.maxItems
  if (min > max) return undefined
  if (max === 0) return '"[]"'
  jsonRule(writer, 'ws')
  const named = elements.slice(0, max)
  const more = item === undefined ? '' : writer.rule(`"," ws ${item}`)
  const restMin = Math.max(0, min - Math.max(1, named.length))
  const restMax = max - Math.max(1, named.length)
  let rest = item === undefined ? '' : writer.repeat(more, restMin, restMax)
  for (let index = named.length - 1; index > 0; index--) {
    const one = `"," ws ${named[index]} ${rest}`.trimEnd()
    rest = writer.rule(index < min ? one : `(${one})?`)
  }
  const all = `${named[0] ?? item} ${rest}`.trimEnd()
  return min === 0 ? `"[" ws (${all} ws)? "]"` : `"[" ws ${all} ws "]"`
}

/** The rules of the elements by position, up to one that cannot be written, and of all further ones. */
function rulesOf(compiler: RuleCompiler, { prefix, items, maxItems }: Facts) {
  const elements: string[] = []
  for (const conjunction of prefix.slice(0, maxItems)) {
    const element = compiler.compile(conjunction)
    if (element === undefined) return { elements, item: undefined }
    elements.push(element)
  }
  return { elements, item: maxItems > elements.length ? compiler.compile(items) : undefined }
}

/** The possible elements of an array with `uniqueItems`, if they can be listed one by one. */
function uniqueElements({ prefix, items }: Facts): readonly string[] | undefined {
  if (prefix.length > 0 || items.length === 0) return undefined
  const texts: string[] = []
  for (const facts of waysOf(items)) {
    const { types } = facts
    const values = listedValues(facts)
    if (values !== undefined) texts.push(...values.map((value) => JSON.stringify(value)))
    else if (types?.every((type) => type === 'boolean' || type === 'null') === true) {
      texts.push(...types.flatMap((type) => (type === 'null' ? ['null'] : ['true', 'false'])))
    } else {
      const numbers = integersOf(facts)
      if (numbers === undefined) return undefined
      texts.push(...numbers)
    }
  }
  const distinct = [...new Set(texts)]
  return distinct.length <= mostUnique ? distinct : undefined
}

/** The integers of a narrow range; undefined if there may be other values. */
function integersOf(facts: Facts): readonly string[] | undefined {
  const { types, isInteger, multiples, minimum, maximum } = facts
  const isOther = types?.length !== 1 || types[0] !== 'number' || !isInteger || multiples.length > 0
  if (isOther || minimum === undefined || maximum === undefined) return undefined
  const { low, high } = digitsWithin(facts, 0)
  if (high - low >= BigInt(mostUnique)) return undefined
  return Array.from({ length: Math.max(0, Number(high - low) + 1) }, (_, nth) =>
    String(low + BigInt(nth)),
  )
}
