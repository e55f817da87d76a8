import { readFileSync } from 'node:fs'
import type { Definition } from '@cllm/core'
import { batchings, orders } from '@cllm/scheduler'

/** The text of `docs/scheduling.md`, with its lists of batchings, orders and their options. */
export const renderSchedulingDocs = (file: URL): string => {
  const lists = { batchings: listsOf(batchings), orders: listsOf(orders) }
  return Object.entries(lists).reduce(
    (page, [name, text]) => between(page, `<!-- ${name}: begin -->`, `<!-- ${name}: end -->`, text),
    readFileSync(file, 'utf8'),
  )
}

const listsOf = (definitions: readonly Definition<unknown>[]): string =>
  `${definitions.map(({ name, doc }) => `- \`${name}\`: ${doc}`).join('\n')}

Options, with their defaults:

${optionLines(definitions).join('\n')}
`

/** A line for each option; options that several definitions share have a single line. */
const optionLines = (definitions: readonly Definition<unknown>[]): string[] => {
  const owners = new Map<string, { option: string; names: string[]; rest: string }>()
  for (const { name, options } of definitions) {
    const defaults = (options?.parse({}) ?? {}) as Readonly<Record<string, unknown>>
    for (const [option, schema] of Object.entries(options?.shape ?? {})) {
      const { description = '' } = schema as { readonly description?: string }
      const rest = `(\`${JSON.stringify(defaults[option])}\`): ${description}`
      const line = owners.get(option + rest) ?? { option, names: [], rest }
      line.names.push(`\`${name}\``)
      owners.set(option + rest, line)
    }
  }
  return [...owners.values()].map(({ option, names, rest }) => {
    const others = definitions
      .map(({ name }) => `\`${name}\``)
      .filter((one) => !names.includes(one))
    const of = others.length === 1 && names.length > 1 ? `all but ${others[0]}` : names.join(', ')
    return `- \`${option}\` of ${of} ${rest}`
  })
}

/** A page with another text between two marks. */
export function between(page: string, begin: string, end: string, text: string): string {
  const [from, to] = [page.indexOf(begin), page.indexOf(end)]
  if (from < 0 || to < from) throw new Error(`expected ${begin} and ${end} in a page`)
  return `${page.slice(0, from + begin.length)}\n\n${text}\n${page.slice(to)}`
}
