import { readFileSync } from 'node:fs'
import { between } from './render-scheduling-docs.js'

const contract = new URL(
  '../../packages/core/src/contracts/scheduling/scheduler-policy.ts',
  import.meta.url,
)

/** The text of `docs/writing-a-plugin.md`, with its table of what policies read. */
export const renderPluginDocs = (file: URL): string => {
  const code = readFileSync(contract, 'utf8')
  const tables = [
    tableOf(code, 'SequenceView', 'Of a request'),
    tableOf(code, 'SchedulerState', 'Of the state'),
  ]
  const [begin, end] = ['<!-- views: begin -->', '<!-- views: end -->']
  return between(readFileSync(file, 'utf8'), begin, end, tables.join('\n'))
}

/** A row for each field of an interface, with its comment up to the first full stop. */
function tableOf(code: string, name: string, title: string): string {
  const [, body] = new RegExp(`interface ${name} \\{\\n([\\s\\S]*?)\\n\\}`).exec(code) ?? []
  if (body === undefined) throw new Error(`there is no interface ${name}`)
  const fields = body.matchAll(/^(?: {2}\/\*\*((?:(?!\*\/)[^])*)\*\/\n)? {2}readonly (\w+)/gm)
  const rows = [...fields].map(([, comment = '', field]) => {
    const [what = ''] = comment
      .replaceAll(/\s+\*?\s*/g, ' ')
      .trim()
      .split(/\.(?: |$)/)
    if (what === '') throw new Error(`${name}: ${field} has no comment`)
    return `|\`${field}\`|${what}|\n`
  })
  return `|${title}|Meaning|\n|-|-|\n${rows.join('')}`
}
