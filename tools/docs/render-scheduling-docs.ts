import { readFileSync } from 'node:fs'
import type { Definition } from '@cllm/core'
import { batchings, orders } from '@cllm/scheduler'

/** The text of `docs/scheduling.md`, with its tables of batchings, orders and their options. */
export const renderSchedulingDocs = (file: URL): string => {
  const tables = {
    batchings: tablesOf('steps', batchings),
    orders: tablesOf('next request', orders),
  }
  return Object.entries(tables).reduce(
    (page, [name, text]) => between(page, `<!-- ${name}: begin -->`, `<!-- ${name}: end -->`, text),
    readFileSync(file, 'utf8'),
  )
}

const tablesOf = (what: string, definitions: readonly Definition<unknown>[]): string => {
  const rows = definitions.map(({ name, doc }) => `| \`${name}\` | ${cell(doc)} |`)
  return `| name | ${what} |
|---|---|
${rows.join('\n')}

| option | of | default | meaning |
|---|---|---|---|
${optionRows(definitions).join('\n')}
`
}

/** A row for each option; options that several definitions share have a single row. */
const optionRows = (definitions: readonly Definition<unknown>[]): string[] => {
  const owners = new Map<string, { before: string; names: string[]; after: string }>()
  for (const { name, options } of definitions) {
    const defaults = (options?.parse({}) ?? {}) as Readonly<Record<string, unknown>>
    for (const [option, schema] of Object.entries(options?.shape ?? {})) {
      const { description = '' } = schema as { readonly description?: string }
      const after = `\`${JSON.stringify(defaults[option])}\` | ${cell(description)}`
      const row = owners.get(option + after) ?? { before: `\`${option}\``, names: [], after }
      row.names.push(`\`${name}\``)
      owners.set(option + after, row)
    }
  }
  return [...owners.values()].map(
    ({ before, names, after }) => `| ${before} | ${names.join(', ')} | ${after} |`,
  )
}

const cell = (text: string) => text.replaceAll('|', '\\|')

const between = (page: string, begin: string, end: string, text: string): string => {
  const [from, to] = [page.indexOf(begin), page.indexOf(end)]
  if (from < 0 || to < from) throw new Error(`docs/scheduling.md: expected ${begin} and ${end}`)
  return `${page.slice(0, from + begin.length)}\n\n${text}\n${page.slice(to)}`
}
