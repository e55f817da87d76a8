import type { EitherJson, JsonSchema, JsonSurroundings } from '@cllm/core'
import { entryOf } from '@cllm/core/defined'
import { GbnfWriter, grammarText, literal, quoteGrammar } from '../gbnf/gbnf-writer.js'
import { regexRule } from '../pattern/automaton-rule.js'
import { isOfStrings, refusedSchema, SchemaBudget } from '../refuse.js'
import { choiceRule, jsonRule } from '../rules/json-rules.js'
import { type Conjunction, type RuleCompiler, SchemaDocument, whereOf } from './schema-document.js'
import { alternativesOf } from './schema-alternatives.js'
import { arrayRule } from '../rules/array-rule.js'
import { numberRule } from '../rules/number-rule.js'
import { objectRule } from '../rules/object-rule.js'
import { stringRule } from '../rules/string-rule.js'
import { type Facts, valueTypes, waysOf } from './facts.js'
import { listedValues } from './is-valid.js'
import { type SchemaObject, typesOfKeywords, type ValueType } from './schema-keywords.js'

/**
 * Writes a grammar whose texts are all JSON that is valid by the schema. It may allow less than the schema (members
 * come in the schema's order, whitespace is bounded), but never more, except that free elements of `uniqueItems` may
 * repeat. Refuses a schema that no grammar can guarantee.
 * @throws CllmError `invalid_constraint` naming the keyword and its JSON pointer
 */
export function schemaToGbnf(
  schema: JsonSchema,
  around: Omit<EitherJson, 'schema'> = {},
  budget = new SchemaBudget(),
): string {
  return grammarText((writer) => either(writer, { ...around, schema }, budget))
}

/** Writes alternatives, such as one for each of many tools; they share the budget. */
function either(writer: GbnfWriter, kinds: EitherJson, budget: SchemaBudget): string {
  const bodies: string[] = []
  for (let one: EitherJson | undefined = kinds; one !== undefined; one = one.or) {
    const prefix = bodies.length === 0 ? 's' : `o${bodies.length}x`
    const document = new SchemaDocument(one.schema, alternativesOf, budget)
    const value = new SchemaCompiler(document, writer, prefix).compile([document.root])
    if (value === undefined) throw refusedSchema('#', 'nothing is valid by it')
    bodies.push(surrounded(writer, value, one, budget).join(' '))
  }
  return bodies.join(' | ')
}

const gapRule = (writer: GbnfWriter): string => writer.rule(String.raw`[ \t\n]{0,3}`)

/** Writes the texts before and behind the JSON value, and further values of the same kind. */
function surrounded(
  writer: GbnfWriter,
  value: string,
  { before = '', closing = '', next }: JsonSurroundings,
  budget: SchemaBudget,
): readonly string[] {
  const gap = () => gapRule(writer)
  const one = [value, ...(closing === '' ? [] : [gap(), literal(closing)])]
  const opening = before === '' ? [] : [writer.rule(regexRule(writer, before, budget)), gap()]
  if (next === undefined) return [...opening, ...one]
  const closed = writer.rule(one.join(' '))
  return [...opening, closed, `(${gap()} ${literal(next)} ${gap()} ${closed})*`]
}

/**
 * Writes the grammar of the text after a trigger.
 * @throws CllmError `invalid_constraint` naming the keyword and its JSON pointer
 */
export function triggeredGbnf(kinds: EitherJson, budget: SchemaBudget): string {
  return grammarText((writer) => `${gapRule(writer)} ${writer.rule(either(writer, kinds, budget))}`)
}

/** Writes a grammar of all JSON objects. */
export function jsonGbnf(): string {
  return grammarText((writer) => jsonRule(writer, 'object'))
}

/** Compiles schemas to rules, one for each type of value that they allow. */
class SchemaCompiler implements RuleCompiler {
  readonly #rules = new Map<string, string | undefined>()
  readonly #made = new Map<string, string | undefined>()
  /** The keys of rules that were asked for a second time: by a schema inside of them, or later. */
  readonly #used = new Set<string>()
  #names = 0

  /** @param prefix - the prefix of its rules' names, as other schemas may have rules in the same grammar */
  constructor(
    readonly document: SchemaDocument,
    readonly writer: GbnfWriter,
    private readonly prefix: string = 's',
  ) {}

  compile(all: Conjunction): string | undefined {
    const real = [...new Set(all)].filter(({ schema }) => schema !== true)
    if (real.length === 0) return jsonRule(this.writer, 'value')
    const key = real
      .map(({ pointer }) => pointer)
      .toSorted()
      .join(' ')
    this.document.budget.spend(1 + (key.length >> 6), real[0]!.pointer)
    if (this.#rules.has(key)) {
      this.#used.add(key)
      return this.#rules.get(key)
    }
    const name = `${this.prefix}${this.#names++}`
    this.#rules.set(key, name)
    let problem: unknown
    const bodies = waysOf(real).flatMap((way) => {
      try {
        return this.#bodies(way)
      } catch (error) {
        if (!isOfStrings(error)) throw error
        // if there is another alternative, this one is left out: the grammar is narrower, but still valid
        problem ??= error
        return []
      }
    })
    if (bodies.length > 0) {
      this.writer.define(name, [...new Set(bodies)].join(' | '))
      return name
    }
    if (this.#used.has(key)) this.#forget(key, name)
    // a caller that goes on without this alternative may ask for it again
    this.#rules.delete(key)
    if (problem !== undefined) throw problem
    this.#rules.set(key, undefined)
    return undefined
  }

  /** Forgets a rule that turned out to have no values, and all rules made since it began, as they may name it. */
  #forget(key: string, name: string): void {
    this.writer.define(name, '""')
    const made = [...this.#rules.keys()]
    for (const later of made.slice(made.indexOf(key))) this.#rules.delete(later)
  }

  once(key: string, pointer: string, make: () => string | undefined): string | undefined {
    this.document.budget.spend(1 + (key.length >> 4), pointer)
    return entryOf(this.#made, key, make)
  }

  quoted(all: Conjunction): string | undefined {
    const inner = new GbnfWriter()
    const value = new SchemaCompiler(this.document, inner).compile(all)
    for (const body of inner.rules().values()) {
      this.document.budget.spend(1 + (body.length >> 2), whereOf(all))
    }
    return value && `"\\"" ${quoteGrammar(this.writer, inner, value)} "\\""`
  }

  /** The rules of the values that are valid in one way, by type. */
  #bodies(way: Facts): string[] {
    if (way.places.length === 0) return [jsonRule(this.writer, 'value')]
    const texts = listedValues(way)?.map((value) => JSON.stringify(value))
    if (texts !== undefined) return texts.length === 0 ? [] : [choiceRule(this.writer, texts)]
    return typesToWrite(way).flatMap((type) => makers[type](this, way) ?? [])
  }
}

type MakeRule = (compiler: RuleCompiler, facts: Facts) => string | undefined

/** By type: makes the rule of the allowed values; undefined: there are none. */
const makers: Readonly<Record<ValueType, MakeRule>> = {
  object: objectRule,
  array: arrayRule,
  string: stringRule,
  number: numberRule,
  boolean: ({ writer }) => jsonRule(writer, 'boolean'),
  null: () => '"null"',
}

function typesToWrite({ types, places }: Facts): readonly ValueType[] {
  const own = places.filter(({ isImplied }) => !isImplied)
  const named = own.some(({ schema }) => (schema as SchemaObject).type !== undefined)
  if (types !== undefined && named) return types
  const implied = new Set(
    (types === undefined ? places : own).flatMap(({ schema }) =>
      Object.keys(schema).flatMap((keyword) => typesOfKeywords.get(keyword) ?? []),
    ),
  )
  const all = types ?? valueTypes
  return implied.size === 0 ? all : all.filter((type) => implied.has(type))
}
