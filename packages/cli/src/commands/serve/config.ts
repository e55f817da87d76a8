import { isDeepStrictEqual } from 'node:util'
import { Document, isScalar, type Scalar, type YAMLMap, type YAMLSeq } from 'yaml'
import { loadConfig, type LoadedConfig } from '../../config/load-config.js'
import { options } from '../../config/options/schema.js'
import { type CommandIo, tell } from '../command.js'
import { configHelp } from '../help/config-help.js'

/** The output of `cllm config --help`, with the usual or with `all` flags. */
export const help = (all: boolean): string => `Usage: cllm config [flags]

Prints the configuration that \`cllm serve\` would use with the same flags, and where each value
comes from. The output is YAML that \`--config\` accepts.

  --changed                     Leave out what has its default value
  --json                        Print JSON instead of YAML

${configHelp(all ? undefined : 'config')}`

/** The configuration as YAML, with a comment per key on where its value comes from, and without secrets. */
export function toDocument({ config, sources }: LoadedConfig, onlyChanged = false): Document {
  const document = new Document({})
  for (const option of options) {
    const path = option.path.split('.')
    const value = path.reduce<unknown>((at, key) => (at as Record<string, unknown>)[key], config)
    if (onlyChanged && isDeepStrictEqual(value, option.default)) continue
    const shown = option.isSecret ? null : value
    const pair = document.createPair<Scalar, Scalar | YAMLMap | YAMLSeq>(path.pop(), shown)
    const node = pair.value!
    if (!isScalar(node)) node.flow = node.items.length === 0
    const hidden = option.isSecret && value !== null ? ', hidden' : ''
    const source = ` ${sources.get(option.path)}${hidden}`
    if (isScalar(node) || node.flow) node.comment = source
    else pair.key.commentBefore = source
    document.addIn(path, pair)
  }
  return document
}

/** `cllm config` */
export async function run(argv: readonly string[], io: CommandIo): Promise<number> {
  const own = ['json', 'changed']
  const flags = argv.filter((argument) => !own.some((name) => argument === `--${name}`))
  const loaded = loadConfig({ argv: flags, own, env: io.env })
  for (const warning of loaded.warnings) io.stderr.write(`warning: ${warning}\n`)
  const document = toDocument(loaded, argv.includes('--changed'))
  const sources = [...loaded.sources].filter(([path]) => document.hasIn(path.split('.')))
  const json = { config: document, sources: Object.fromEntries(sources) }
  tell(io, argv.includes('--json'), json, () => document.toString({ lineWidth: 0 }))
  return 0
}
