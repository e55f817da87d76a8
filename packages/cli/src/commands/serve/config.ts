import { Document, isScalar, type Pair, type Scalar, visit } from 'yaml'
import { loadConfig, type LoadedConfig } from '../../config/load-config.js'
import { options, type CllmConfig } from '../../config/options/schema.js'
import type { CommandIo } from '../command-io.js'
import { configHelp } from '../help/config-help.js'

/** The output of `cllm config --help`, or with `all` flags. */
export const help = (all: boolean): string => `Usage: cllm config [--json] [flags of cllm serve]

Prints the configuration that \`cllm serve\` would use with the same flags, and where each value
comes from. The output is YAML that \`--config\` accepts.

  --json                        Print JSON instead of YAML

${configHelp(all ? undefined : 'config')}`

const pathOf = (pair: Pair, ancestors: readonly unknown[]): string =>
  [...ancestors, pair]
    .filter((node): node is Pair => node instanceof Object && 'key' in node && isScalar(node.key))
    .map(({ key }) => String((key as Scalar).value))
    .join('.')

const secrets = options.filter(({ isSecret }) => isSecret).map(({ path }) => path.split('.'))

/** The configuration without its secrets. */
const withoutSecrets = (config: CllmConfig): CllmConfig => {
  const copy = structuredClone(config) as unknown as Record<string, Record<string, unknown>>
  for (const [section = '', name = ''] of secrets) copy[section]![name] = null
  return copy as unknown as CllmConfig
}

/** The configuration as YAML, with a comment per key on where its value comes from. */
export const renderConfig = ({ config, sources }: LoadedConfig): string => {
  const document = new Document(withoutSecrets(config))
  visit(document, {
    Pair(_, pair, ancestors) {
      const source = sources.get(pathOf(pair, ancestors))
      if (source === undefined) return
      if (isScalar(pair.value)) pair.value.comment = ` ${source}`
      else (pair.key as Scalar).commentBefore = ` ${source}`
      return visit.SKIP
    },
  })
  return document.toString({ lineWidth: 0 })
}

/** `cllm config` */
export async function run(argv: readonly string[], io: CommandIo): Promise<number> {
  const flags = argv.filter((argument) => argument !== '--json')
  const loaded = loadConfig({ argv: flags, env: io.env })
  for (const warning of loaded.warnings) io.stderr.write(`warning: ${warning}\n`)
  const { config, sources } = loaded
  if (argv.includes('--json')) {
    const json = { config: withoutSecrets(config), sources: Object.fromEntries(sources) }
    io.stdout.write(`${JSON.stringify(json, undefined, 2)}\n`)
  } else {
    io.stdout.write(renderConfig(loaded))
  }
  return 0
}
