import type { JsonSchema } from '@cllm/core'
import { refusedSchema, type Spend } from '../refuse.js'
import { holders, maps } from './schema-keywords.js'

/** A part of the schema and where it is, as a JSON pointer in a URI fragment. */
interface Target {
  readonly pointer: string
  readonly value: unknown
}

/** A part with an address of its own. */
interface Resource extends Target {
  readonly uri: string
}

/** To read the address of a schema. */
const addressSteps = 20
/** What a schema without an address of its own is at. */
const nowhere = 'schema:///'

/** Where the references of a schema lead: by JSON pointers, `$id`, `$anchor` and `$dynamicAnchor`. */
export class SchemaReferences {
  readonly #root: Target
  readonly #resources: Resource[]
  readonly #anchors = new Map<string, Target>()
  /** How many resources have a dynamic anchor of that name. */
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
   * Where a reference leads.
   * @param pointer - of the schema that has it
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
      // a schema may have the address of the whole under two names
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
    // tools that give names to schemas by $id mean pointers from the root
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

  /** @param trail - the steps to the value, the same list for all */
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

  /** The address that a schema has. */
  #add(schema: Readonly<Record<string, unknown>>, trail: readonly string[], base: string): string {
    const { $id, $anchor, $dynamicAnchor } = schema
    if (![$id, $anchor, $dynamicAnchor].some((one) => typeof one === 'string')) return base
    let uri = base
    this.spend(trail.length)
    const pointer = `#${trail.map((step) => `/${escapedStep(step)}`).join('')}`
    const target: Target = { pointer, value: schema }
    if (typeof $id === 'string') {
      // addresses are read by rules of their own
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

/** What these names and indexes lead to. */
export function below(from: Target, steps: readonly (string | number)[]): Target | undefined {
  let { value, pointer } = from
  for (const step of steps) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, step)) return undefined
    value = (value as Readonly<Record<string | number, unknown>>)[step]
    pointer += `/${escapedStep(step)}`
  }
  return { value, pointer }
}

/** A name or index as a step of a JSON pointer in a URI fragment. */
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
