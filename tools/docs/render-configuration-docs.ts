import { configVariable, configFlag } from '../../packages/cli/src/config/layers.js'
import { variable } from '../../packages/cli/src/config/options/option.js'
import {
  options,
  sectionOf,
  type PlacedOption,
} from '../../packages/cli/src/config/options/schema.js'
import { ignoredKeys, mappedKeys } from '../../packages/cli/src/config/file-layer.js'

const intro = `# Configuration

<!-- Generated from the schema in packages/cli/src/config/options by \`pnpm run docs\`; do not edit. -->

Every setting is a YAML key, an environment variable and a flag of \`cllm serve\`. Flags override variables, variables the
file (\`--${configFlag}\` or \`${configVariable}\`), the file the defaults. The variable of \`--a-flag\` is \`CLLM_A_FLAG\`, unless
another is named. A key that differs from the flag stands before it.

Settings without a default are unset, empty or off. Objects are JSON in flags and variables. \`--no-mmap\` turns off a switch such as
\`--mmap\`; \`--no-usage\` takes back a setting. Relative paths start from the file's folder, or the working directory. An
unknown \`CLLM_…\` variable is a warning; an empty one counts as unset. \`cllm config\` with the same flags prints the result and
the source of each value; \`--${configFlag}\` accepts its output.
`

const originalLayout = `## Files of the original server

The keys of the original cLLM's YAML work too; the keys above win. ${ignoredKeys.size} others have no effect; one warning
lists them.
`

const notes: Readonly<Record<string, string>> = {
  'api.defaults':
    'For fields that requests leave out, in every API; unset, each API has [its own](defaults.md). ' +
    "Shown are the native API's.",
}

/** A default; none for what is unset, empty or off. */
const valueOf = (value: unknown) => {
  const text = typeof value === 'string' ? value : JSON.stringify(value)
  return ['null', '[]', '{}', 'false'].includes(text) ? '' : `\`${text}\``
}

/** With its placeholder, where that is more than a word: the text says what the word does. */
const flagOf = ({ flag, format, placeholder }: PlacedOption) =>
  format.isSwitch || /^[A-Z]+$/.test(placeholder) ? `\`--${flag}\`` : `\`--${flag} ${placeholder}\``

/** What an option takes, where its flag's placeholder does not say so already. */
const takes = ({ format: { expected, isSwitch }, placeholder }: PlacedOption): string =>
  isSwitch || placeholder.includes('|') || /^(an?|names|parts) [a-z ]+$/.test(expected)
    ? ''
    : expected
        .replace(/^a (?:whole )?number (?:of \w+ )?from (\S+) up/, '≥ $1')
        .replace(/^a (?:whole )?number (?:of \w+ )?from (\S+) to /, '$1 to ')
        .replace(/^one of /, '')
        .replace(/, or auto$/, '')
        .replace(/^≥ 0$/, '')

const row = (option: PlacedOption): string => {
  const { path, env, default: value, doc } = option
  const text = doc.replace(/[;,] JSON in a flag or variable\b/, '')
  const named = env === variable(option.flag) ? text : `${text} Variable: \`${env}\`.`
  const key = path.slice(sectionOf(path).length + 1) || path
  const keyed = variable(key) === variable(option.flag) ? '' : `\`${key}\`, `
  const values = [valueOf(value), takes(option)].filter(Boolean).join('; ')
  return `- ${keyed}${flagOf(option)}${values && ` (${values})`}: ${named}`
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
