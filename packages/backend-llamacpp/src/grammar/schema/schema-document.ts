import type { JsonSchema } from '@cllm/core'
import { entryOf } from '@cllm/core/defined'
import type { GbnfWriter } from '../gbnf/gbnf-writer.js'
import { LinearPattern } from '../pattern/nfa.js'
import { orRefused } from '../pattern/parse-pattern.js'
import { refusedSchema, type SchemaBudget } from '../refuse.js'
import { readDialects } from './read-dialects.js'
import { keywordsSchema, type SchemaObject } from './schema-keywords.js'
import { below, escapedStep, SchemaReferences } from './schema-references.js'

/** A schema in a document, with its place as a JSON pointer in a URI fragment. */
export class Place {
  readonly #children = new Map<string, Place>()
  #referred: readonly Place[] | undefined

  constructor(
    readonly document: SchemaDocument,
    readonly pointer: string,
    readonly schema: boolean | SchemaObject,
    /** The number of names and elements in its keywords, as a measure of the work on it. */
    readonly size: number,
  ) {}

  /** Whether the schema was derived from another one: only then its pointer contains `^`. */
  get isImplied(): boolean {
    return this.pointer.includes('^')
  }

  /** Spends steps of the budget on this schema. */
  spend(steps: number): void {
    this.document.budget.spend(steps, this.pointer)
  }

  /** The schema inside this one at these names and indexes. */
  child(...path: readonly (string | number)[]): Place {
    return entryOf(this.#children, path.join('\0'), () => {
      const { pointer, value } = below({ pointer: this.pointer, value: this.schema }, path)!
      return this.document.place(pointer, value)
    })
  }

  /** The schema in one of its keywords; none if it does not have that keyword. */
  own(keyword: keyof SchemaObject): readonly Place[] {
    return Object.hasOwn(this.schema as SchemaObject, keyword) ? [this.child(keyword)] : []
  }

  /**
   * Checks a schema that is derived from this one.
   * @param name - a name that is unique among the schemas derived from this one
   */
  implied(name: string | number, schema: unknown): Place {
    return this.document.place(`${this.pointer}^${name}`, schema)
  }

  /** The schemas that its references lead to. */
  get referred(): readonly Place[] {
    return (this.#referred ??= (['$ref', '$dynamicRef'] as const).flatMap((keyword) => {
      const reference = (this.schema as SchemaObject)[keyword]
      return reference === undefined ? [] : [this.document.resolve(this, reference, keyword)]
    }))
  }
}

/** Schemas that must all be fulfilled at once. */
export type Conjunction = readonly Place[]

/** The pointer of the first of some schemas, for error messages; `#` if there is none. */
export function whereOf([first]: Conjunction): string {
  return first?.pointer ?? '#'
}

/** The pointer of a keyword in the first schema that has it; `#` if none has it. */
export function pointerOf(
  { places }: { readonly places: Conjunction },
  keyword: keyof SchemaObject,
): string {
  const place = places.find(({ schema }) => Object.hasOwn(schema as SchemaObject, keyword))
  return place === undefined ? '#' : `${place.pointer}/${keyword}`
}

/** Makes the rules of schemas. The same schemas share one rule, so that recursion ends. */
export interface RuleCompiler {
  readonly writer: GbnfWriter
  readonly document: SchemaDocument
  /** The rule for values valid by all of these schemas; undefined if there are none. */
  compile(all: Conjunction): string | undefined
  /** Returns the rule of a key, which is only made once; errors of `make` are thrown each time. */
  once(key: string, pointer: string, make: () => string | undefined): string | undefined
  /** The rule for strings with the text of a value valid by all of these schemas; undefined if there are none. */
  quoted(all: Conjunction): string | undefined
}

/** Steps to check a schema, when it is first used. */
const checkSteps = 50
/** Steps to check each element: an invalid one takes a few microseconds. */
const elementSteps = 8

/** A schema with all schemas inside it. Each part is checked when it is first used. */
export class SchemaDocument {
  readonly #places = new Map<string, Place>()
  readonly #patterns = new Map<string, LinearPattern>()
  /** Schemas whose alternatives are being compared; true: meanwhile, a schema inside one has asked for all of them. */
  readonly compared = new Map<Place, boolean>()
  #references: SchemaReferences | undefined

  /** @param alternativesOf - finds all ways to fulfil schemas at once */
  constructor(
    private readonly schema: JsonSchema,
    readonly alternativesOf: (all: Conjunction) => Conjunction[],
    readonly budget: SchemaBudget,
  ) {}

  /**
   * Whether a pattern of the schema matches a text.
   * @throws CllmError `invalid_constraint`
   */
  matches(pattern: string, text: string, pointer: string): boolean {
    const spend = this.budget.at(pointer)
    const make = () => new LinearPattern(pattern, spend)
    return orRefused(pointer, () => entryOf(this.#patterns, pattern, make).test(text))
  }

  /** The whole schema. */
  get root(): Place {
    return this.place('#', this.schema)
  }

  /** The schema that a reference in another one leads to. */
  resolve(place: Place, reference: string, keyword: '$ref' | '$dynamicRef'): Place {
    place.spend(1 + (reference.length >> 3))
    this.#references ??= new SchemaReferences(this.schema, this.budget.at('#'))
    const { pointer, value } = this.#references.resolve(place.pointer, reference, keyword)
    return this.place(pointer, value)
  }

  /**
   * Checks a part of the schema, or one derived from a part; returns the same object each time.
   * @param pointer - for a derived schema the pointer of the part, followed by ^ and a unique name
   */
  place(pointer: string, value: unknown): Place {
    return entryOf(this.#places, pointer, () => {
      const { size, steps } = sizeOf(value)
      this.budget.spend(checkSteps + steps + (pointer.length >> 4), pointer)
      return new Place(this, pointer, checked(pointer, value), size)
    })
  }
}

/** The number of entries in a schema's keywords, without the schemas inside, and the steps to check them. */
function sizeOf(value: unknown): { readonly size: number; readonly steps: number } {
  if (typeof value !== 'object' || value === null) return { size: 0, steps: 0 }
  const all = Object.entries(value)
  let [size, steps] = [all.length, all.length]
  for (const [keyword, one] of all) {
    if (typeof one === 'string') size += one.length >> 3
    if (typeof one !== 'object' || one === null) continue
    const count = Array.isArray(one) ? one.length : countOf(one as object)
    size += count
    steps += keyword === 'enum' ? count : elementSteps * count
  }
  return { size, steps }
}

/** Counts names, and the names that each of them requires. */
const countOf = (map: object): number =>
  Object.values(map).reduce((sum, one) => sum + (Array.isArray(one) ? 1 + one.length : 1), 0)

function checked(pointer: string, value: unknown): boolean | SchemaObject {
  if (typeof value === 'boolean') return value
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw refusedSchema(pointer, 'expected a schema: an object, true or false')
  }
  const read = readDialects(value as Readonly<Record<string, unknown>>)
  const [issue] = keywordsSchema.safeParse(read).error?.issues ?? []
  if (issue === undefined) return inShort(read)
  const path = issue.path.map((step) => `/${escapedStep(String(step))}`).join('')
  throw refusedSchema(`${pointer}${path}`, issue.message)
}

/** Writes `type` as a list, and `const` as the only value of `enum`. */
function inShort(read: Readonly<Record<string, unknown>>): SchemaObject {
  const { type, const: only, ...schema }: Record<string, unknown> = read
  if (type !== undefined) schema['type'] = typeof type === 'string' ? [type] : type
  if (Object.hasOwn(read, 'const')) {
    const { enum: values = [only] } = schema as SchemaObject
    const text = canonicalJson(only)
    schema['enum'] = values.filter((value) => canonicalJson(value) === text)
  }
  return schema
}

/** Writes a JSON value such that only equal values have the same text. */
export function canonicalJson(value: unknown): string {
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? 'undefined'
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join()}]`
  const members = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1))
  return `{${members.map(([name, member]) => `${JSON.stringify(name)}:${canonicalJson(member)}`).join()}}`
}
