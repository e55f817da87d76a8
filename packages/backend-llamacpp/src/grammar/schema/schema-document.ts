import { entryOf, type JsonSchema } from '@cllm/core'
import type { GbnfWriter } from '../gbnf/gbnf-writer.js'
import { LinearPattern } from '../pattern/nfa.js'
import { orRefused } from '../pattern/parse-pattern.js'
import { refusedSchema, type SchemaBudget } from '../refuse.js'
import { readDialects } from './read-dialects.js'
import { keywordsSchema, type SchemaObject } from './schema-keywords.js'
import { below, escapedStep, SchemaReferences } from './schema-references.js'

/** A schema of a document and where it is: as a JSON pointer in a URI fragment. */
export class Place {
  readonly #children = new Map<string, Place>()
  #referred: readonly Place[] | undefined

  constructor(
    readonly document: SchemaDocument,
    readonly pointer: string,
    readonly schema: boolean | SchemaObject,
    /** Names and elements that its keywords list, which a look at it may go over. */
    readonly size: number,
  ) {}

  /** Whether it is made of another one: nothing else has `^` in its pointer. */
  get isImplied(): boolean {
    return this.pointer.includes('^')
  }

  /** Counts work on it. */
  spend(steps: number): void {
    this.document.budget.spend(steps, this.pointer)
  }

  /** The schema inside it that these names and indexes lead to. */
  child(...path: readonly (string | number)[]): Place {
    return entryOf(this.#children, path.join('\0'), () => {
      const { pointer, value } = below({ pointer: this.pointer, value: this.schema }, path)!
      return this.document.place(pointer, value)
    })
  }

  /** The schema that one of its keywords holds, if it has that keyword. */
  own(keyword: keyof SchemaObject): readonly Place[] {
    return Object.hasOwn(this.schema as SchemaObject, keyword) ? [this.child(keyword)] : []
  }

  /**
   * One that it implies, checked.
   * @param name - what nothing else is called that it implies
   */
  implied(name: string | number, schema: unknown): Place {
    return this.document.place(`${this.pointer}^${name}`, schema)
  }

  /** The schemas that its references mean. */
  get referred(): readonly Place[] {
    return (this.#referred ??= (['$ref', '$dynamicRef'] as const).flatMap((keyword) => {
      const reference = (this.schema as SchemaObject)[keyword]
      return reference === undefined ? [] : [this.document.resolve(this, reference, keyword)]
    }))
  }
}

/** Schemas that all hold at once. */
export type Conjunction = readonly Place[]

/** Where the first of some schemas is, to say where a problem is; the whole where there is none. */
export function whereOf([first]: Conjunction): string {
  return first?.pointer ?? '#'
}

/** Where a keyword is that some of the schemas have. */
export function pointerOf(
  { places }: { readonly places: Conjunction },
  keyword: keyof SchemaObject,
): string {
  const place = places.find(({ schema }) => Object.hasOwn(schema as SchemaObject, keyword))
  return place === undefined ? '#' : `${place.pointer}/${keyword}`
}

/** Makes rules of the schemas inside a schema; the same schemas have one rule, so that recursion ends. */
export interface RuleCompiler {
  readonly writer: GbnfWriter
  readonly document: SchemaDocument
  /** The rule for values valid by all of these schemas; undefined if there are none. */
  compile(all: Conjunction): string | undefined
  /** What is made of the same facts once; what cannot be made is refused each time. */
  once(key: string, pointer: string, make: () => string | undefined): string | undefined
  /** Strings that hold the text of a value valid by all of these schemas; undefined if there are none. */
  quoted(all: Conjunction): string | undefined
}

/** Steps of a schema that is looked at for the first time. */
const checkSteps = 50
/** Steps of each element that is checked: one that is wrong takes some microseconds. */
const elementSteps = 8

/** A schema with all that it holds. Each part is checked when it is first looked at. */
export class SchemaDocument {
  readonly #places = new Map<string, Place>()
  readonly #patterns = new Map<string, LinearPattern>()
  /** Schemas whose alternatives are being compared; true: what is inside one of them has asked for them all. */
  readonly compared = new Map<Place, boolean>()
  #references: SchemaReferences | undefined

  /** @param alternativesOf - finds every way to fulfil schemas */
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

  /** The schema that a reference in another one means. */
  resolve(place: Place, reference: string, keyword: '$ref' | '$dynamicRef'): Place {
    place.spend(1 + (reference.length >> 3))
    this.#references ??= new SchemaReferences(this.schema, this.budget.at('#'))
    const { pointer, value } = this.#references.resolve(place.pointer, reference, keyword)
    return this.place(pointer, value)
  }

  /**
   * A part of the schema, or one that a part implies, checked.
   * @param pointer - of one that is implied: that of the part, ^ and what nothing else is called
   */
  place(pointer: string, value: unknown): Place {
    return entryOf(this.#places, pointer, () => {
      const { size, steps } = sizeOf(value)
      this.budget.spend(checkSteps + steps + (pointer.length >> 4), pointer)
      return new Place(this, pointer, checked(pointer, value), size)
    })
  }
}

/** What is listed in a schema, those inside it aside, and the steps to check it. */
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

/** Names, and the names that each of them asks for. */
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

/** With types as a list, and a `const` as the only value of `enum`. */
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

/** The text of a JSON value that only equal values have. */
export function canonicalJson(value: unknown): string {
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? 'undefined'
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join()}]`
  const members = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1))
  return `{${members.map(([name, member]) => `${JSON.stringify(name)}:${canonicalJson(member)}`).join()}}`
}
