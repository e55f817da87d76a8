import { describeValue } from '../../config/messages.js'
import { configFlag } from '../../config/layers.js'
import { options, type PlacedOption, sectionOf } from '../../config/options/schema.js'

const textColumn = 32
const width = 100

const wrap = (text: string): string => {
  const lines = ['']
  for (const word of text.split(' ')) {
    const line = lines.at(-1)!
    if (line.length + word.length + 1 > width - textColumn) lines.push(word)
    else lines[lines.length - 1] = line === '' ? word : `${line} ${word}`
  }
  return lines.join(`\n${' '.repeat(textColumn)}`)
}

const entry = (flag: string, text: string): string => {
  const head = `  ${flag}`
  const gap = head.length < textColumn - 1 ? ' '.repeat(textColumn - head.length) : undefined
  return `${head}${gap ?? `\n${' '.repeat(textColumn)}`}${wrap(text)}`
}

const describe = (option: PlacedOption): string => {
  const { flag: name, doc, default: value, format, placeholder } = option
  const flag = format.isSwitch ? `--${name}, --no-${name}` : `--${name} ${placeholder}`
  const ending =
    value === null || typeof value === 'object' ? '' : ` (default ${describeValue(value)})`
  return entry(flag, `${doc.replaceAll('`', '')}${ending.replaceAll('"', '')}`)
}

/** The flags that people need first. */
const usual: ReadonlySet<string> = new Set(
  'host port model slots ctx-size gpu policy api-key api-keys log-file cluster'.split(' '),
)

/**
 * The flags of the options, by section, for the help of commands that accept them.
 *
 * @param command - lists the usual flags, with a hint to this command's whole help; undefined: lists all flags
 */
export const configHelp = (command?: string): string => {
  const lines = [entry(`--${configFlag} FILE`, 'YAML file with these settings')]
  if (command !== undefined) {
    lines.push(...options.filter(({ flag }) => usual.has(flag)).map(describe))
    const all = `\`cllm ${command} --help-all\` lists all ${options.length} flags by what they are for.`
    return [...lines, '', all, ''].join('\n')
  }
  let section = ''
  for (const option of options) {
    if (sectionOf(option.path) !== section) {
      section = sectionOf(option.path)
      lines.push('', `${section}:`)
    }
    lines.push(describe(option))
  }
  lines.push(
    '',
    'Flags override environment variables (--ctx-size is CLLM_CTX_SIZE), which override the YAML',
    'file; --no-NAME takes back what these set, where the default is none (--no-usage).',
    '`cllm config` accepts the same flags and shows each value and where it comes from.',
    '',
  )
  return lines.join('\n')
}

/** The output of `cllm serve --help`, with the usual or with `all` flags. */
export const help = (all: boolean): string => `Usage: cllm serve [flags]

Serves a model over HTTP. Downloads it if necessary, loads it and warms it up, then prints
\`listening on http://HOST:PORT\`. Until then, requests get 503.
SIGINT and SIGTERM let running requests finish; a second signal ends the server at once.

${configHelp(all ? undefined : 'serve')}`
