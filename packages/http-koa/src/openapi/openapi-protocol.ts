import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import type { KoaProtocol } from '../routes/koa-context.js'
import { defineProtocol, PROTOCOLS } from '../routes/define-protocol.js'
import { bindRoutes, type Call, get, Reply, type Route } from '../routes/route.js'
import { openApiDocument, type OpenApiDocument } from './openapi-document.js'
import { formType } from '../body/read-body.js'

/** Settings of {@link openApiProtocol}. */
export interface OpenApiProtocolOptions {
  /** The protocols to describe, normally all of the transport. */
  readonly protocols: readonly KoaProtocol[]
  /** Default: the version of this package. */
  readonly version?: string
}

const { version: packageVersion } = createRequire(import.meta.url)('../../package.json') as {
  readonly version: string
}

/** Makes the description at the first call, as that would be a tenth of the server's start-up time. */
type Describe = () => OpenApiDocument

const showPage = (_call: Call, describe: Describe) =>
  new Reply(docsPage(describe()), { type: 'html' })

const showScript = () => new Reply(fileOf('docs.js'), { type: 'js' })

const routes: readonly Route<Describe>[] = [
  get('/openapi.json', 'open', 'This description', (_call, describe) => describe()),
  get('/docs', 'open', 'This description as a page', showPage, { answers: ['text/html'] }),
  get('/docs/send.js', 'open', "That page's script", showScript, { isHidden: true, isQuiet: true }),
]

/** `GET /openapi.json`, generated from the schemas that check the requests, and a page at `/docs`. */
export function openApiProtocol({
  protocols,
  version = packageVersion,
}: OpenApiProtocolOptions): KoaProtocol {
  const others = () => protocols.filter(({ name }) => name !== 'openapi')
  let made: OpenApiDocument | undefined
  const describe = () => (made ??= openApiDocument([...others(), own], version))
  const own: KoaProtocol = { name: 'openapi', routes: bindRoutes(routes, describe) }
  return own
}

/** {@link openApiProtocol} as a definition; it describes all protocols of its server. */
export const openApi = defineProtocol({
  name: 'openapi',
  doc: 'Describes every API that is served, as `/openapi.json` and as a page at `/docs`.',
  create: (_options, services) => openApiProtocol({ protocols: services.get(PROTOCOLS) ?? [] }),
})

/** A file of the page at `/docs`. */
const fileOf = (name: string): string =>
  readFileSync(new URL(`../../data/${name}`, import.meta.url), 'utf8')

const escape = (text: string): string =>
  text.replace(/[&<>"]/g, (character) => `&#${character.charCodeAt(0)};`)

interface Schema {
  readonly type?: string | readonly string[]
  readonly format?: string
  readonly const?: string
  readonly enum?: readonly unknown[]
  readonly anyOf?: readonly Schema[]
  readonly items?: Schema
  readonly properties?: Readonly<Record<string, Schema>>
  readonly required?: readonly string[]
}

interface Operation {
  readonly summary: string
  readonly tags: readonly string[]
  readonly parameters?: readonly Readonly<Record<'name' | 'in', string> & { required?: boolean }>[]
  readonly requestBody?: { readonly content: Readonly<Record<string, { readonly schema: Schema }>> }
}

/** The description as a page with a form for each route. It needs only its script, so it works offline. */
function docsPage({ info, tags, paths }: OpenApiDocument): string {
  const sections = tags.map(({ name }) => {
    const entries = Object.entries(paths).flatMap(([path, methods]) =>
      Object.entries(methods as unknown as Record<string, Operation>)
        .filter(([, operation]) => operation.tags.includes(name))
        .map(([method, operation]) => entry(path, method, operation)),
    )
    return `<h2>${escape(name)}</h2>${entries.join('')}`
  })
  const parts = {
    title: escape(`${info.title} ${info.version}`),
    description: escape(info.description),
    sections: sections.join('\n'),
  }
  return fileOf('docs.html').replace(/{{(\w+)}}/g, (_, name: keyof typeof parts) => parts[name])
}

function entry(path: string, method: string, { summary, parameters = [], requestBody }: Operation) {
  const head = `<code>${method.toUpperCase()} ${escape(path)}</code> ${escape(summary)}`
  const [type, content] = Object.entries(requestBody?.content ?? {})[0] ?? []
  const { properties = {}, required = [] } = content?.schema ?? {}
  const rows = Object.entries(properties).map(([name, property]) => {
    const need = required.includes(name) ? 'required' : ''
    return `<tr><td><code>${escape(name)}</code><td>${escape(typeText(property))}<td>${need}</tr>`
  })
  const inputs = parameters.map(({ name, in: place, required }) =>
    input(name, ` data-in="${place}"${required === true ? ' required' : ''}`),
  )
  const parts = Object.entries(properties).map(([name, { type, format, const: only = '' }]) => {
    if (type === undefined) return ''
    const need = required.includes(name) ? ` required value="${escape(only)}"` : ''
    return input(name, format === 'binary' ? `${need} type="file"` : need)
  })
  const example = content ? JSON.stringify(exampleOf(content.schema), undefined, 2) : ''
  const body = `<label>Body<textarea rows="${example.split('\n').length + 1}" spellcheck="false">${escape(example)}</textarea></label>`
  const sent = type === undefined ? '' : type === formType ? parts.join('') : body
  return `<details><summary>${head}</summary><table>${rows.join('')}</table>
<form enctype="${type ?? ''}" data-method="${method.toUpperCase()}" data-path="${escape(path)}">${inputs.join('')}${sent}
<button>Send</button> <output></output><pre tabindex="0" role="group" aria-label="Answer"></pre></form></details>`
}

const input = (name: string, more: string): string =>
  `<label>${escape(name)} <input name="${escape(name)}"${more}></label>`

/** Fields with a prompt. An example whose schema requires none of them has the first that the schema contains. */
const questions = ['content', 'input', 'prompt', 'messages']

/** An example of a schema; objects only have the fields that make a useful request. */
function exampleOf({ type, enum: values, anyOf, items, ...object }: Schema, name = ''): unknown {
  if (values !== undefined) return values.includes('user') ? 'user' : values[0]
  if (anyOf?.[0] !== undefined) return exampleOf(anyOf[0], name)
  const first = typeof type === 'string' ? type : type?.[0]
  if (first === 'array') return [exampleOf(items ?? {}, name)]
  if (first === 'boolean') return true
  if (first === 'integer' || first === 'number') return 64
  if (first !== 'object') return questions.includes(name) ? 'Say hi.' : name.toUpperCase()
  const { properties = {}, required = [] } = object
  const isAsked = required.some((each) => questions.includes(each))
  const question = isAsked ? undefined : questions.find((each) => each in properties)
  const beside = required.includes('query') ? 'documents' : 'stream'
  const shown = Object.entries(properties).filter(
    ([each]) => required.includes(each) || each === question || each === beside,
  )
  return Object.fromEntries(shown.map(([each, schema]) => [each, exampleOf(schema, each)]))
}

function typeText({ type, format, enum: values, anyOf }: Schema): string {
  if (format === 'binary') return 'file'
  if (values !== undefined) return values.map((value) => JSON.stringify(value)).join(', ')
  if (anyOf !== undefined) return [...new Set(anyOf.map(typeText))].join(' or ')
  return typeof type === 'string' ? type : (type?.join(' or ') ?? 'anything')
}
