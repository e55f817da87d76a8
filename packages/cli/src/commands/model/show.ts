import { type SamplingParams, samplingRows } from '@cllm/core'
import { memoryFor } from '../../models/catalog/memory-of.js'
import { formatBytes } from '../../process/terminal.js'
import { tell, defineCommand } from '../command.js'
import { toggle } from '../flags.js'
import { type KnownModel, knownModel } from '../../models/catalog/known-models.js'
import { configFlag, folderFrom } from '../config-flags.js'

/** `cllm show` */
export const run = defineCommand({
  usage: 'show <model>',
  doc: `
Shows a model's shape, size, memory and sampling defaults without loading it. The model is a name
from the catalog or a file.`,
  flags: { json: toggle('Print JSON'), config: configFlag },
  async run({ flags, words: [spec = ''] }, io) {
    const facts = factsOf(await knownModel(spec, folderFrom(flags, io)))
    return tell(io, flags.json, facts, () => text(facts))
  },
})

type Facts = Readonly<Record<string, string | number | null | readonly string[]>>

/** The facts, in the order in which they are shown; null: not known. */
function factsOf({ name, entry, path, shape }: KnownModel): Facts {
  const context = Math.min(4096, shape?.trainingContext ?? 0)
  return {
    model: name,
    title: entry?.title ?? null,
    licence: entry?.licence ?? null,
    file: path ?? 'not downloaded',
    size: formatBytes((shape?.sizeBytes ?? entry?.bytes ?? 0) + (shape?.projectorBytes ?? 0)),
    architecture: path === undefined ? null : (shape?.architecture ?? null),
    quantization: path === undefined ? null : (shape?.quantization ?? null),
    'training context': shape?.trainingContext ?? null,
    layers: shape?.layers ?? null,
    'hidden size': shape?.hiddenSize ?? null,
    vocabulary: shape?.vocabularySize ?? null,
    memory:
      shape === undefined
        ? null
        : `${formatBytes(memoryFor(shape, 1, context))} with one slot of ${context} tokens`,
    'sampling of its file': samplingText(shape?.sampling),
    'sampling of the catalog': samplingText(entry?.sampling),
    source: entry?.sources.map(sourceText) ?? null,
  }
}

/** As requests write it. */
function samplingText(sampling: Partial<SamplingParams> = {}): string | null {
  const named = samplingRows.flatMap(([name, { wire }]) =>
    name in sampling ? [`${wire} ${JSON.stringify(sampling[name])}`] : [],
  )
  return named.length === 0 ? null : named.join(', ')
}

function sourceText(source: NonNullable<KnownModel['entry']>['sources'][number]): string {
  const checked = source.sha256 === undefined ? ' (no known checksum)' : ''
  if (source.kind === 'npm') return `npm: ${source.parts.map((part) => part.package).join(' + ')}`
  return `${source.uri}${checked}`
}

function text(facts: Facts): string {
  return Object.entries(facts)
    .filter(([, value]) => value !== null)
    .map(([name, value]) => `  ${name.padEnd(25)}${[value].flat().join(`\n${' '.repeat(27)}`)}\n`)
    .join('')
}
