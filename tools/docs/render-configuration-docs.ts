import { configVariable } from '../../packages/cli/src/config/layers/environment-layer.js'
import { configFlag } from '../../packages/cli/src/config/layers/flags-layer.js'
import { variable } from '../../packages/cli/src/config/options/option.js'
import {
  options,
  sectionOf,
  type PlacedOption,
} from '../../packages/cli/src/config/options/schema.js'
import { ignoredKeys, mappedKeys } from '../../packages/cli/src/config/layers/original-layout.js'

const intro = `# Configuration

<!-- Generated from the schema in packages/cli/src/config/options by \`pnpm run docs\`; do not edit. -->

Every setting is a YAML key, an environment variable and a flag of \`cllm serve\`. Flags override variables, variables the
file (\`--${configFlag}\` or \`${configVariable}\`), the file the defaults. The variable of \`--a-flag\` is \`CLLM_A_FLAG\`, but
for those named below. An entry is the key, if it is not the flag's name with \`_\` for \`-\`, then the flag, the default, the
accepted values and the meaning.

\`cllm config\` with the same flags prints the result, and the source of each value; \`--${configFlag}\` accepts its output.
All errors are reported at once. An unknown \`CLLM_…\` variable is a warning; an empty one counts as unset. Relative paths
start from the file's folder, or the working directory. \`--no-mmap\` turns off a switch such as \`--mmap\`; \`--no-usage\`
takes back a setting whose default is none.
`

const originalLayout = `## Files of the original server

The keys of the original cLLM's YAML work too; the keys above win. Its other keys (${ignoredKeys.size}, of its batch tuner and
caches, for example) have no effect; one warning lists those of a file.
`

const notes: Readonly<Record<string, string>> = {
  'api.defaults':
    'For fields that requests leave out, in every API; unset, each API has [its own](defaults.md). ' +
    "Shown are the native API's.",
}

const valueOf = (value: unknown) =>
  value === null ? 'none' : `\`${typeof value === 'string' ? value : JSON.stringify(value)}\``

const flagOf = ({ flag, format, placeholder }: PlacedOption) =>
  format.isSwitch ? `\`--${flag}\`` : `\`--${flag} ${placeholder}\``

/** What an option takes, where its flag's placeholder does not say so already. */
const takes = ({ format: { expected, isSwitch }, placeholder }: PlacedOption): string =>
  isSwitch || placeholder.includes('|') || /^(an?|names|parts) [a-z ]+$/.test(expected)
    ? ''
    : expected
        .replace(/^a (?:whole )?number (?:of \w+ )?from (\S+) up/, '≥ $1')
        .replace(/^a (?:whole )?number (?:of \w+ )?from (\S+) to /, '$1 to ')
        .replace(/^one of /, '')

const row = (option: PlacedOption): string => {
  const { path, env, default: value, doc } = option
  const named = env === variable(option.flag) ? doc : `${doc} Variable: \`${env}\`.`
  const key = path.slice(sectionOf(path).length + 1) || path
  const keyed = variable(key) === variable(option.flag) ? '' : `\`${key}\`, `
  return `- ${keyed}${flagOf(option)} (${[valueOf(value), takes(option)].filter(Boolean).join('; ')}): ${named}`
}

const section = (name: string): string => {
  const rows = options.filter(({ path }) => sectionOf(path) === name).map(row)
  const note = notes[name] === undefined ? '' : `${notes[name]}\n\n`
  return `## \`${name}\`\n\n${note}${rows.join('\n')}\n`
}

const original = (): string => {
  const rows = [...mappedKeys].map(([key, { path }]) => `\`${key}\` → \`${path}\``)
  return `${originalLayout}
${rows.join(', ')}.
`
}

/** The text of `docs/configuration.md`. */
export const renderConfigurationDocs = (): string => {
  const sections = [...new Set(options.map(({ path }) => sectionOf(path)))].map(section)
  return [intro, ...sections, original()].join('\n')
}
