import type { OpenApiDocument } from './openapi-document.js'

const style = `body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}
summary{cursor:pointer}code{font-weight:600}table{border-collapse:collapse;margin:.5rem 0}
td,th{text-align:left;padding:.1rem 1rem .1rem 0;vertical-align:top}`

const escape = (text: string): string =>
  text.replace(/[&<>"]/g, (character) => `&#${character.charCodeAt(0)};`)

interface Property {
  readonly type?: string | readonly string[]
  readonly enum?: readonly unknown[]
  readonly anyOf?: readonly Property[]
}

interface Operation {
  readonly summary: string
  readonly tags: readonly string[]
  readonly requestBody?: {
    readonly content: {
      readonly 'application/json': {
        readonly schema: {
          readonly properties?: Readonly<Record<string, Property>>
          readonly required?: readonly string[]
        }
      }
    }
  }
}

/** The description of an API as a page that needs nothing else, not even a network. */
export function docsPage({ info, tags, paths }: OpenApiDocument): string {
  const operations = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({
      path,
      method,
      operation: operation as unknown as Operation,
    })),
  )
  const sections = tags.map(({ name }) => {
    const own = operations.filter(({ operation }) => operation.tags.includes(name))
    const entries = own.map(({ path, method, operation }) => entry(path, method, operation))
    return `<h2>${escape(name)}</h2>${entries.join('')}`
  })
  const title = `${escape(info.title)} ${escape(info.version)}`
  return `<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark"><link rel="icon" href="data:,"><title>${title}</title>
<style>${style}</style><main><h1>${title}</h1>
<p>${escape(info.description)} For programs: <a href="/openapi.json">openapi.json</a>.</p>
${sections.join('\n')}</main></html>`
}

function entry(path: string, method: string, { summary, requestBody }: Operation): string {
  const head = `<code>${method.toUpperCase()} ${escape(path)}</code> ${escape(summary)}`
  if (requestBody === undefined) return `<p>${head}</p>`
  const { properties = {}, required = [] } = requestBody.content['application/json'].schema
  const rows = Object.entries(properties).map(([name, property]) => {
    const need = required.includes(name) ? 'required' : ''
    return `<tr><td><code>${escape(name)}</code><td>${escape(typeText(property))}<td>${need}</tr>`
  })
  return `<details><summary>${head}</summary><table>${rows.join('')}</table></details>`
}

function typeText({ type, enum: values, anyOf }: Property): string {
  if (values !== undefined) return values.map((value) => JSON.stringify(value)).join(', ')
  if (anyOf !== undefined) return [...new Set(anyOf.map(typeText))].join(' or ')
  return typeof type === 'string' ? type : (type?.join(' or ') ?? 'anything')
}
