import { defined, type JsonSchema } from '@cllm/core'
import { LinearPattern } from '../pattern/linear-pattern.js'
import { PatternProblem } from '../pattern/parse-pattern.js'
import { refusedSchema } from '../refuse.js'
import { readDialects } from './read-dialects.js'
import { SchemaBudget } from './schema-budget.js'
import { keywordsSchema, type SchemaObject } from './schema-keywords.js'

/** A schema and where it is: as a JSON pointer in a URI fragment. */
export interface Place {
  readonly pointer: string
  readonly schema: boolean | SchemaObject
}

/** Schemas that all hold at once. */
export type Conjunction = readonly Place[]

/** Says whether no value can be valid by both; false where that is not known. */
export type AreDisjoint = (
  document: SchemaDocument,
  left: Conjunction,
  right: Conjunction,
) => boolean

/** Steps of a schema that is looked at for the first time. */
const checkSteps = 50

/** A schema with all that it holds. Each part is checked when it is first looked at. */
export class SchemaDocument {
  readonly budget = new SchemaBudget()
  readonly #root: JsonSchema
  readonly #places = new Map<string, Place>()
  readonly #children = new WeakMap<Place, Map<string, Place>>()
  readonly #patterns = new Map<string, LinearPattern>()

  constructor(
    root: JsonSchema,
    readonly areDisjoint: AreDisjoint,
  ) {
    this.#root = root
  }

  /**
   * A pattern of the schema, made once.
   * @throws PatternProblem
   */
  pattern(text: string): LinearPattern {
    const known = this.#patterns.get(text)
    if (known !== undefined) return known
    this.budget.spend(text.length, '#')
    const pattern = new LinearPattern(text)
    this.#patterns.set(text, pattern)
    return pattern
  }

  /**
   * Whether a pattern of the schema matches a text.
   * @throws CllmError `invalid_constraint`
   */
  matches(pattern: string, text: string, pointer: string): boolean {
    try {
      return this.pattern(pattern).test(text, (steps) => this.budget.spend(steps, pointer))
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
    const pointer = `${parent.pointer}${path.map((step) => `/${escaped(step)}`).join('')}`
    const place = this.#place(pointer, value)
    children.set(key, place)
    return place
  }

  /** The schema that a `$ref` means. */
  resolve(place: Place, reference: string): Place {
    const at = `${place.pointer}/$ref`
    if (reference !== '#' && !reference.startsWith('#/')) {
      throw refusedSchema(at, `expected # or a JSON pointer that starts with #/, got ${reference}`)
    }
    let value: unknown = this.#root
    const steps = reference
      .split('/')
      .slice(1)
      .map((step) => unescaped(at, step))
    for (const step of steps) {
      const isInside = typeof value === 'object' && value !== null && Object.hasOwn(value, step)
      if (!isInside) throw refusedSchema(at, `there is nothing at ${reference}`)
      value = (value as Readonly<Record<string, unknown>>)[step]
    }
    return this.#place(`#${steps.map((step) => `/${escaped(step)}`).join('')}`, value)
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
  const read = readDialects(pointer, value as Readonly<Record<string, unknown>>)
  if (read === false) return false
  const [issue] = keywordsSchema.safeParse(read).error?.issues ?? []
  if (issue === undefined) {
    if (pointer !== '#' && '$id' in value) {
      throw refusedSchema(`${pointer}/$id`, '$id is only supported at the root')
    }
    return defined(read)
  }
  const path = issue.path.map((step) => `/${escaped(String(step))}`).join('')
  throw refusedSchema(`${pointer}${path}`, issue.message)
}

function escaped(step: string | number): string {
  return encodeURI(String(step).replaceAll('~', '~0').replaceAll('/', '~1')).replaceAll('#', '%23')
}

function unescaped(at: string, step: string): string {
  try {
    return decodeURIComponent(step).replaceAll('~1', '/').replaceAll('~0', '~')
  } catch {
    throw refusedSchema(at, `${step} is not a part of a URI`)
  }
}
