import { readFileSync } from 'node:fs'
import { defaultSampling, samplingRows } from '@cllm/core'
import {
  adminProtocol,
  type BoundRoute,
  generateSchema,
  type KoaProtocol,
  llamaServerProtocol,
  modelsProtocol,
  nativeDefaults,
  nativeProtocol,
  schemaOf,
  webProtocol,
} from '@cllm/http-koa'
import t from 'tap'

const page = readFileSync(new URL('../../../../docs/api.md', import.meta.url), 'utf8')
const routesOf = (...protocols: readonly KoaProtocol[]) =>
  protocols.flatMap(({ routes = [] }) => routes)
const routes = routesOf(nativeProtocol(), adminProtocol(), modelsProtocol())
/** Some of these are named, too. */
const others = routesOf(llamaServerProtocol(), webProtocol({ page: new URL(import.meta.url) }))

/** `PATCH /admin/keys/{name}` */
const nameOf = ({ method, path }: BoundRoute) =>
  `${method.toUpperCase()} ${path.replaceAll(/[:*](\w+)/g, '{$1}')}`

/** The routes that a text names: `GET and PUT /a` is two. */
function routesIn(text: string): string[] {
  const named = text.matchAll(/\b((?:[A-Z]{3,}(?:, | and )?)+) (\/[\w/{}-]*)/g)
  return [...named].flatMap(([, methods = '', path = '']) =>
    methods.split(/, | and /).map((method) => `${method} ${path}`),
  )
}

/** What the page says below each heading. */
const parts = page.split(/^(?=#+ )/m)
const isAbout = (part: string, { path }: BoundRoute) =>
  new RegExp(`${path.replace(/:\w+/, String.raw`\{?\w+`)}(?![\\w/])`).test(part)

interface Field {
  readonly type?: string | readonly string[]
  readonly default?: unknown
  readonly enum?: readonly string[]
  readonly minimum?: number
  readonly maximum?: number
  readonly exclusiveMinimum?: number
  readonly maxItems?: number
  readonly anyOf?: readonly Field[]
}

/** The fields of a schema, as it is described. */
const fieldsOf = (schema: BoundRoute['body']) =>
  (schema === undefined ? {} : schemaOf(schema)['properties']) as Readonly<Record<string, Field>>

t.test('every route is there, and no other', (t) => {
  const named = new Set(routesIn(page))
  const missing = routes.map(nameOf).filter((name) => !named.delete(name))
  t.same(missing, [])
  for (const name of named) {
    const got = name.replace('HEAD ', 'GET ')
    t.ok([...routes, ...others].map(nameOf).includes(got), `${name} is no route`)
  }
  t.end()
})

t.test('who may use a route', (t) => {
  const isSaid = (part: string) => /for admins/.test(part)
  for (const route of routes) {
    if (route.path.startsWith('/admin/')) t.equal(route.access, 'admin', route.path)
    else if (route.access === 'admin')
      t.ok(
        parts.some((part) => isAbout(part, route) && isSaid(part)),
        nameOf(route),
      )
  }
  const closed = [...routes, ...others].filter(({ access }) => access === 'admin')
  for (const part of parts.filter(isSaid)) {
    t.ok(part.startsWith('## Administration') || closed.some((route) => isAbout(part, route)), part)
  }
  t.end()
})

t.test('every field of a route is where the route is', (t) => {
  for (const route of routes) {
    const text = parts.filter((part) => isAbout(part, route)).join('\n')
    for (const name of Object.keys({ ...fieldsOf(route.body), ...fieldsOf(route.query) })) {
      // what is a model is said once for all of them, and those of /generate are below
      if (name === 'model' || route.path.startsWith('/generate')) continue
      if (!new RegExp(`[\`"?&]${name}[\`"=]`).test(text)) t.fail(`${nameOf(route)}: ${name}`)
    }
  }
  t.end()
})

/** A bullet with what a route takes, under a heading with its path or with the path itself. */
const bullet = /^- `(POST|PUT|PATCH)(?: (\/[^`]*))?`: ([^]*?)(?=\n\n|\n- |\n$)/gm

t.test('what is said to be in a body is, with its default', (t) => {
  let count = 0
  for (const part of parts) {
    for (const [text, method, path = /\/[\w/-]+/.exec(part)?.[0], words = ''] of part.matchAll(
      bullet,
    )) {
      const route = routes.find((one) => nameOf(one) === `${method} ${path}`)
      const fields = fieldsOf(route?.body)
      const known = Object.entries(fields).flatMap(([name, field]) => [name, ...(field.enum ?? [])])
      if (known.length === 0) continue
      for (const [, word = '', value] of words.matchAll(/`([a-z_]+)`(?: \(([\d.]+)\))?/g)) {
        t.ok(known.includes(word), `${text}: ${word}`)
        if (value !== undefined) t.equal(fields[word]?.default, Number(value), `${text}: ${word}`)
        count++
      }
    }
  }
  t.ok(count > 10, `${count} fields`)
  t.end()
})

/** A field's range in the words of the page. */
function rangeOf({
  type,
  minimum,
  maximum,
  exclusiveMinimum,
  maxItems,
  anyOf = [],
}: Field): string {
  const most = [maxItems, ...anyOf.map((one) => one.maxItems)].find((one) => one !== undefined)
  if (most !== undefined) return `up to ${most}`
  if (exclusiveMinimum !== undefined) return `> ${exclusiveMinimum}`
  if (maximum === 2 ** 31 - 1) return minimum === -(2 ** 31) ? 'integer' : `≥ ${minimum}`
  return minimum === undefined
    ? String(type ?? [...new Set(anyOf.map((one) => one.type))].join(' or '))
    : `${minimum} to ${maximum}`
}

t.test('the fields of /generate, with their ranges and defaults', (t) => {
  const { maxTokens } = nativeDefaults
  const sampling = { ...defaultSampling, ...nativeDefaults.sampling }
  const breakers = defaultSampling.drySequenceBreakers.map((one) => `\`${one}\``).join(', ')
  const defaults = new Map<string, unknown>([
    ...samplingRows.map(([name, { wire }]) => [wire, sampling[name]] as const),
    ['max_tokens', maxTokens],
    ['dry_sequence_breakers', breakers.replace('`\n`', 'line break')],
    ['ignore_eos', sampling.ignoreEos],
  ])
  const fields = new Map(
    Object.entries(fieldsOf(generateSchema)).filter(([name]) => name !== 'model'),
  )
  const isList = /^#+ (?:POST \/generate|More samplers)$/m
  const lists = parts.filter((part) => isList.test(part)).join('\n')
  const lines = lists.matchAll(/^- ((?:`\w+`(?:, )?)+) \((.*?)(?:; (.*?))?\): /gm)
  for (const [line, names = '', range = '', value] of lines) {
    for (const [, name = ''] of names.matchAll(/`(\w+)`/g)) {
      const field = fields.get(name)
      t.ok(field, `${line} is no field`)
      t.ok(
        range.replace('0 or 2', '0 to 2').includes(rangeOf(field ?? {})),
        `${line}${rangeOf(field ?? {})}`,
      )
      if (defaults.has(name)) t.equal(value, String(defaults.get(name)), line)
      fields.delete(name)
    }
  }
  t.same([...fields.keys()], [])
  t.end()
})
