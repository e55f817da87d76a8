import { defined, type JsonSchema } from '@cllm/core'
import { PatternProblem } from '../pattern/parse-pattern.js'
import { patternTest, type PatternTest } from '../pattern/pattern-test.js'
import { refusedSchema } from '../refuse.js'
import { readDialects } from './dialects/read-dialects.js'
import { SchemaBudget } from './schema-budget.js'
import { keywordsSchema, type SchemaObject } from './schema-keywords.js'
import { escapedStep, SchemaReferences } from './schema-references.js'

/** A schema and where it is: as a JSON pointer in a URI fragment. */
export interface Place {
  readonly pointer: string
  readonly schema: boolean | SchemaObject
}

/** Schemas that all hold at once. */
export type Conjunction = readonly Place[]

/** What is known of schemas and values. */
export interface Judgement {
  /** Says whether no value can be valid by both; false where that is not known. */
  areDisjoint(document: SchemaDocument, left: Conjunction, right: Conjunction): boolean
  /** Says whether a property that must come has another value in each of them. */
  areTold(document: SchemaDocument, all: readonly Conjunction[]): boolean
  /** Says whether a value is valid by all of some schemas. */
  accepts(document: SchemaDocument, all: Conjunction, value: unknown): boolean
  /** Finds a property that the right schema asks for and the left one does not name. */
  missingName(document: SchemaDocument, left: Conjunction, right: Conjunction): string | undefined
}

/** Steps of a schema that is looked at for the first time. */
const checkSteps = 50

/** A schema with all that it holds. Each part is checked when it is first looked at. */
export class SchemaDocument {
  readonly budget = new SchemaBudget()
  readonly #root: JsonSchema
  readonly #places = new Map<string, Place>()
  readonly #children = new WeakMap<Place, Map<string, Place>>()
  readonly #patterns = new Map<string, PatternTest>()
  #references: SchemaReferences | undefined

  constructor(
    root: JsonSchema,
    readonly judgement: Judgement,
  ) {
    this.#root = root
  }

  /**
   * Whether a pattern of the schema matches a text.
   * @throws CllmError `invalid_constraint`
   */
  matches(pattern: string, text: string, pointer: string): boolean {
    try {
      return this.#pattern(pattern)(text, (steps) => this.budget.spend(steps, pointer))
    } catch (error) {
      if (error instanceof PatternProblem) throw refusedSchema(pointer, error.message)
      throw error
    }
  }

  /** The whole schema. */
  get root(): Place {
    return this.#place('#', this.#root)
  }

  /** The schema inside another one that these names and indexes lead to. */
  child(parent: Place, ...path: readonly (string | number)[]): Place {
    const children = this.#children.get(parent) ?? new Map<string, Place>()
    this.#children.set(parent, children)
    const key = path.join('\0')
    const known = children.get(key)
    if (known !== undefined) return known
    let value: unknown = parent.schema
    for (const step of path) value = (value as Readonly<Record<string, unknown>>)[step]
    const pointer = `${parent.pointer}${path.map((step) => `/${escapedStep(step)}`).join('')}`
    const place = this.#place(pointer, value)
    children.set(key, place)
    return place
  }

  /** The schema that a reference means. */
  resolve(place: Place, reference: string, keyword: '$ref' | '$dynamicRef'): Place {
    this.#references ??= new SchemaReferences(this.#root, (steps) => this.budget.spend(steps, '#'))
    let value: unknown = this.#root
    let pointer = '#'
    for (const step of this.#references.resolve(place.pointer, reference, keyword)) {
      value = (value as Readonly<Record<string, unknown>>)[step]
      pointer += `/${escapedStep(step)}`
    }
    return this.#place(pointer, value)
  }

  /**
   * A schema that another one implies.
   * @param pointer - of that one, ^ and what nothing else is called
   */
  made(pointer: string, schema: unknown): Place {
    return this.#place(pointer, schema)
  }

  #pattern(text: string): PatternTest {
    const known = this.#patterns.get(text)
    if (known !== undefined) return known
    this.budget.spend(text.length, '#')
    const test = patternTest(text)
    this.#patterns.set(text, test)
    return test
  }

  #place(pointer: string, value: unknown): Place {
    const known = this.#places.get(pointer)
    if (known !== undefined) return known
    const size = typeof value === 'object' && value !== null ? Object.keys(value).length : 0
    this.budget.spend(checkSteps + size + (pointer.length >> 4), pointer)
    const place = { pointer, schema: checked(pointer, value) }
    this.#places.set(pointer, place)
    return place
  }
}

function checked(pointer: string, value: unknown): boolean | SchemaObject {
  if (typeof value === 'boolean') return value
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw refusedSchema(pointer, 'expected a schema: an object, true or false')
  }
  const read = readDialects(value as Readonly<Record<string, unknown>>)
  const [issue] = keywordsSchema.safeParse(read).error?.issues ?? []
  if (issue === undefined) return defined(read)
  const path = issue.path.map((step) => `/${escapedStep(String(step))}`).join('')
  throw refusedSchema(`${pointer}${path}`, issue.message)
}
