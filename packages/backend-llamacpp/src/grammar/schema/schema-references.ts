import type { JsonSchema } from '@cllm/core'
import { refusedSchema, type Spend } from '../refuse.js'
import { holders, maps } from './schema-keywords.js'

/** A part of the schema, with its place as a JSON pointer in a URI fragment. */
interface Target {
  readonly pointer: string
  readonly value: unknown
}

/** A part of the schema with its own address (`$id`). */
interface Resource extends Target {
  readonly uri: string
}

/** Steps to parse the address of a schema. */
const addressSteps = 20
/** The address of a schema that does not have its own. */
const nowhere = 'schema:///'

/** Resolves the references of a schema: by JSON pointers, `$id`, `$anchor` and `$dynamicAnchor`. */
export class SchemaReferences {
  readonly #root: Target
  readonly #resources: Resource[]
  readonly #anchors = new Map<string, Target>()
  /** The number of schemas with a dynamic anchor, by its name. */
  readonly #dynamic = new Map<string, number>()

  constructor(
    root: JsonSchema,
    private readonly spend: Spend,
  ) {
    this.#root = { pointer: '#', value: root }
    this.#resources = [{ uri: nowhere, ...this.#root }]
    if (typeof root === 'object') this.#collect(root, [], nowhere)
  }

  /**
   * Returns the part that a reference leads to.
   * @param pointer - the pointer of the schema that contains the reference
   * @throws CllmError `invalid_constraint`
   */
  resolve(pointer: string, reference: string, keyword: '$ref' | '$dynamicRef'): Target {
    const at = `${pointer}/${keyword}`
    const cut = reference.indexOf('#')
    const address = cut < 0 ? reference : reference.slice(0, cut)
    const fragment = cut < 0 ? '' : reference.slice(cut + 1)
    this.spend(1 + (this.#resources.length >> 2))
    let resource: Resource | undefined = this.#resourceOf(pointer)
    if (address !== '') {
      const uri = addressOf(address, resource.uri)
      // the last one wins, as a schema inside may have the same address as the whole
      resource = this.#resources.findLast((one) => one.uri === uri)
    }
    if (resource === undefined) {
      throw refusedSchema(at, `expected an address inside the schema, got ${reference}`)
    }
    if (fragment === '') return resource
    if (fragment.startsWith('/')) return this.#walk(at, reference, resource, fragment)
    const name = unescapedStep(at, fragment)
    if (keyword === '$dynamicRef' && (this.#dynamic.get(name) ?? 0) > 1) {
      throw refusedSchema(at, `several schemas have the $dynamicAnchor ${name}`)
    }
    const found = this.#anchors.get(`${resource.uri}#${name}`)
    if (found === undefined) throw refusedSchema(at, `there is no $anchor ${name}`)
    return found
  }

  #walk(at: string, reference: string, resource: Target, fragment: string): Target {
    const steps = fragment
      .split('/')
      .slice(1)
      .map((step) => unescapedStep(at, step))
    // some tools write $id as a mere name, and pointers from the root
    const found = below(resource, steps) ?? below(this.#root, steps)
    if (found === undefined) throw refusedSchema(at, `there is nothing at ${reference}`)
    return found
  }

  #resourceOf(pointer: string): Resource {
    return this.#resources.findLast(
      (one) =>
        pointer.startsWith(one.pointer) &&
        ['', '/', '^'].includes(pointer.charAt(one.pointer.length)),
    )!
  }

  /** @param trail - the steps to the value; all calls share the list */
  #collect(value: unknown, trail: string[], base: string): void {
    if (typeof value !== 'object' || value === null) return
    this.spend(1)
    const into = (one: unknown, step: string, within = base): void => {
      trail.push(step)
      this.#collect(one, trail, within)
      trail.pop()
    }
    if (Array.isArray(value)) {
      for (const [index, one] of value.entries()) into(one, String(index))
      return
    }
    const schema = value as Readonly<Record<string, unknown>>
    const uri = this.#add(schema, trail, base)
    for (const keyword of holders) into(schema[keyword], keyword, uri)
    for (const keyword of maps) {
      const map = schema[keyword]
      if (typeof map !== 'object' || map === null) continue
      trail.push(keyword)
      for (const [name, one] of Object.entries(map)) into(one, name, uri)
      trail.pop()
    }
  }

  /** Adds a schema's address and anchors, if any; returns the address that applies inside it. */
  #add(schema: Readonly<Record<string, unknown>>, trail: readonly string[], base: string): string {
    const { $id, $anchor, $dynamicAnchor } = schema
    if (![$id, $anchor, $dynamicAnchor].some((one) => typeof one === 'string')) return base
    let uri = base
    this.spend(trail.length)
    const pointer = `#${trail.map((step) => `/${escapedStep(step)}`).join('')}`
    const target: Target = { pointer, value: schema }
    if (typeof $id === 'string') {
      // parsing a URL takes longer than other steps
      this.spend(addressSteps)
      if ($id.startsWith('#')) this.#anchors.set(`${base}${$id}`, target)
      else {
        uri = addressOf($id, base) ?? base
        this.#resources.push({ uri, ...target })
      }
    }
    if (typeof $anchor === 'string') this.#anchors.set(`${uri}#${$anchor}`, target)
    if (typeof $dynamicAnchor === 'string') {
      this.#anchors.set(`${uri}#${$dynamicAnchor}`, target)
      this.#dynamic.set($dynamicAnchor, (this.#dynamic.get($dynamicAnchor) ?? 0) + 1)
    }
    return uri
  }
}

/** The part at these names and indexes; undefined: there is none. */
export function below(from: Target, steps: readonly (string | number)[]): Target | undefined {
  let { value, pointer } = from
  for (const step of steps) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, step)) return undefined
    value = (value as Readonly<Record<string | number, unknown>>)[step]
    pointer += `/${escapedStep(step)}`
  }
  return { value, pointer }
}

/** Escapes a name or index as a step of a JSON pointer in a URI fragment. */
export function escapedStep(step: string | number): string {
  if (/[\ud800-\udfff]/u.test(String(step))) {
    throw refusedSchema('#', `${JSON.stringify(step)} holds half of a surrogate pair`)
  }
  return encodeURI(String(step).replaceAll('~', '~0').replaceAll('/', '~1')).replaceAll('#', '%23')
}

function addressOf(address: string, base: string): string | undefined {
  if (!URL.canParse(address, base)) return undefined
  const url = new URL(address, base)
  url.hash = ''
  return url.href
}

function unescapedStep(at: string, step: string): string {
  try {
    return decodeURIComponent(step).replaceAll('~1', '/').replaceAll('~0', '~')
  } catch {
    throw refusedSchema(at, `${step} is not a part of a URI`)
  }
}
