import { configVariable } from '../config/environment-layer.js'
import { configFlag } from '../config/flags-layer.js'
import { options, sectionOf, type PlacedOption } from '../config/option-list.js'
import { ignoredKeys, mappedKeys } from '../config/original-layout.js'

const intro = `# Configuration

<!-- Made from the schema in packages/cli/src/config by \`pnpm run docs\`; do not edit. -->

Every setting can be given in a YAML file, as an environment variable and as a flag of \`cllm serve\`.
Flags override the environment, the environment overrides the file, and the file overrides the
defaults. The file is named by \`--${configFlag}\` or \`${configVariable}\`.

\`cllm config\`, with the same flags, prints the effective configuration and where each value came
from; its output is a file that \`--${configFlag}\` takes. Unknown keys and flags, wrong types and values
out of range are errors, all of them reported at once; an unknown \`CLLM_…\` variable is a warning,
and one that is set to nothing counts as not set. Relative paths start from the folder of the file
that they are written in, or from the working directory. A switch such as \`--mmap\` is turned off by
\`--no-mmap\`.
`

const originalLayout = `## Files of the original server

The keys of the original cLLM's YAML work as they are, beside the ones above. What means nothing here
is named in one warning. Where a file has a key of the original and the one it stands for, the latter
counts.
`

const notes: Readonly<Record<string, string>> = {
  'api.defaults':
    'What a request does not say. Where nobody sets them, every protocol has the defaults that it ' +
    "documents; those below are the native API's.",
}

const cell = (text: string) => text.replaceAll('|', '\\|')

const valueOf = (value: unknown) =>
  value === null ? 'none' : `\`${typeof value === 'string' ? value : JSON.stringify(value)}\``

const flagOf = ({ arg, format, placeholder }: PlacedOption) =>
  format.isSwitch ? `\`--${arg}\`` : `\`--${arg} ${placeholder}\``

const row = (option: PlacedOption): string => {
  const { path, env, default: value, format, doc } = option
  const cells = [`\`${path}\``, flagOf(option), `\`${env}\``, valueOf(value), format.expected, doc]
  return `| ${cells.map(cell).join(' | ')} |`
}

const header = `| key | flag | variable | default | takes | meaning |
|---|---|---|---|---|---|`

const section = (name: string): string => {
  const rows = options.filter(({ path }) => sectionOf(path) === name).map(row)
  const note = notes[name] === undefined ? '' : `${notes[name]}\n\n`
  return `## \`${name}\`\n\n${note}${header}\n${rows.join('\n')}\n`
}

const original = (): string => {
  const rows = [...mappedKeys].map(([key, { path }]) => `| \`${key}\` | \`${path}\` |`)
  const ignored = [...ignoredKeys].map((key) => `\`${key}\``).join(', ')
  return `${originalLayout}
| key of the original | stands for |
|---|---|
${rows.join('\n')}

Without a meaning here: ${ignored}.
`
}

/** The text of `docs/configuration.md`. */
export const renderConfigurationDocs = (): string => {
  const sections = [...new Set(options.map(({ path }) => sectionOf(path)))].map(section)
  return [intro, ...sections, original()].join('\n')
}
