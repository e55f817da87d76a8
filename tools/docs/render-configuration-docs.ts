import { configVariable } from '../../packages/cli/src/config/layers/environment-layer.js'
import { configFlag } from '../../packages/cli/src/config/layers/flags-layer.js'
import {
  options,
  sectionOf,
  type PlacedOption,
} from '../../packages/cli/src/config/options/option-list.js'
import { ignoredKeys, mappedKeys } from '../../packages/cli/src/config/layers/original-layout.js'

const intro = `# Configuration

<!-- Generated from the schema in packages/cli/src/config/options by \`pnpm run docs\`; do not edit. -->

Every setting can be given in a YAML file, as an environment variable or as a flag of \`cllm serve\`.
Flags override the environment, the environment overrides the file, and the file overrides the
defaults. \`--${configFlag}\` or \`${configVariable}\` names the file.

\`cllm config\`, with the same flags, prints the effective configuration and where each value comes
from; \`--${configFlag}\` accepts its output as a file. Unknown keys and flags, wrong types and values
out of range are errors, which are reported all at once. An unknown \`CLLM_…\` variable is a warning,
and an empty variable counts as not set. Relative paths in a file are relative to the file's folder,
other relative paths to the working directory. \`--no-mmap\` turns off a switch such as \`--mmap\`, and
\`--no-usage\` takes back what the file or the environment sets, where the default is none.
`

const originalLayout = `## Files of the original server

The keys of the original cLLM's YAML also work, together with the ones above. One warning lists the
keys that have no effect. If a file has a key of the original and the key that it maps to, the latter
wins.
`

const notes: Readonly<Record<string, string>> = {
  'api.defaults':
    'Defaults for fields that a request leaves out. If they are not set, every protocol uses the ' +
    "defaults that it documents; the defaults below are the native API's.",
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
| key of the original | maps to |
|---|---|
${rows.join('\n')}

Without effect: ${ignored}.
`
}

/** The text of `docs/configuration.md`. */
export const renderConfigurationDocs = (): string => {
  const sections = [...new Set(options.map(({ path }) => sectionOf(path)))].map(section)
  return [intro, ...sections, original()].join('\n')
}
