import { type SamplingParams, samplingRows, CllmError, silentLogger } from '@cllm/core'
import { gpuDevices, type GpuDevices, type ModelShape } from '@cllm/backend-llamacpp'
import { projectorFits, projectorMemory } from '@cllm/backend-llamacpp/memory-plan'
import {
  memoryFor,
  fitsOn,
  layersOf,
  mostLayers,
  type Place,
  type Sizes,
} from '../../models/catalog/memory-of.js'
import { formatBytes, textTable } from '../../process/terminal.js'
import { tell, defineCommand } from '../command.js'
import { toggle, one, integer } from '../flags.js'
import { type KnownModel, knownModel } from '../../models/catalog/known-models.js'
import { configFlag, folderFrom, configFrom } from '../config-flags.js'
import { availableMemory } from '../../engine/available.js'
import { gpuFolder, modelsFolder } from '../../models/cache-folder.js'

/** `cllm show` */
export const show = defineCommand({
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

/** Sampling parameters, as requests write them. */
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

const slotCounts = [1, 2, 4, 8, 16] as const
const least = 2048

/** `cllm fit` */
export const fit = defineCommand({
  usage: 'fit <model>',
  doc: `
Shows a model's memory on this machine, by context size (tokens per slot) and number of slots. The
model is a name from the catalog, downloaded or not, or a file. Figures assume an f16 KV cache;
\`cllm serve --kv-cache-type q8_0\` halves it. With a GPU, it also shows the number of layers that fit
on it, or with \`--gpu-layers\` the sizes that fit with that number.`,
  flags: {
    'gpu-layers': one('N', 'Layers on the GPU (default: as many as fit)', integer(0)),
    json: toggle('Print JSON'),
    config: configFlag,
  },
  async run({ flags, words: [spec = ''] }, io) {
    const loaded = configFrom({ config: flags.config }, io)
    const { name, shape } = await knownModel(spec, modelsFolder(loaded, io.env))
    if (shape === undefined) {
      const message = `the shape of ${spec} is not known before it is downloaded: \`cllm pull ${spec}\``
      throw new CllmError('model_unavailable', message)
    }
    const available = availableMemory()
    const { gpu, mmproj_offload: offload } = loaded.config.engine
    const devices = await gpuDevices(gpu, silentLogger, gpuFolder(io))
    const asked = flags['gpu-layers']
    const encodes = offload && projectorFits(shape, asked ?? 'auto', devices?.free.vram ?? 0)
    const place = devices && { ram: available, gpu: devices.free, encodes }
    const rows = contextsOf(shape).map((contextSize) => ({
      contextSize,
      memory: slotCounts.map((slots) => memoryFor(shape, slots, contextSize)),
      ...(place && { gpuLayers: gpuLayersFor(shape, contextSize, place, asked) }),
    }))
    const counts = slotCounts.map((slots) => `${slots} slot${slots > 1 ? 's' : ''}`)
    const fitting: Sizes[] = []
    const lines = rows.map(({ contextSize, memory, gpuLayers }) => {
      const cells = memory.map((bytes, index) => {
        const size = formatBytes(bytes)
        const most = gpuLayers?.[index]
        const fits = gpuLayers === undefined ? bytes <= available : most !== null
        if (!fits) return `${size} ✗`
        fitting.push({ contextSize, slots: slotCounts[index]! })
        return `${size} ${gpuLayers && asked === undefined ? `${most}/${layersOf(shape)}` : '✓'}`
      })
      return [contextSize.toLocaleString('en'), ...cells]
    })
    const fits = {
      model: name,
      available,
      gpu: devices?.kind ?? false,
      ...(devices && { devices: devices.names, gpuMemory: devices.free.vram }),
      layers: layersOf(shape),
      weights: shape.sizeBytes,
      projector: projectorMemory(shape),
      slots: slotCounts,
      rows,
    }
    const where = place && encodes ? 'on the GPU' : 'in RAM'
    const projector =
      fits.projector > 0 ? `, ${formatBytes(fits.projector)} for the projector ${where}` : ''
    const text = () =>
      `${name}: ${formatBytes(shape.sizeBytes)} for the model${projector}; ${legend(available, devices)}\n` +
      `${textTable(['tokens per slot', ...counts], lines)}${advice(spec, fitting, asked)}`
    return tell(io, flags.json, fits, text)
  },
})

/**
 * The most layers that fit on the GPUs, for each number of slots; null: it does not fit at all, or not
 * with as many as are asked for.
 */
export const gpuLayersFor = (
  shape: ModelShape,
  contextSize: number,
  place: Place,
  asked?: number,
): readonly (number | null)[] =>
  slotCounts.map((slots) => {
    const settings = { slots, contextSize }
    if (asked === undefined) return mostLayers(shape, settings, place) ?? null
    const layers = Math.min(asked, layersOf(shape))
    return fitsOn(shape, layers, settings, place) ? layers : null
  })

function legend(available: number, devices: GpuDevices | undefined): string {
  const memory = `${formatBytes(available)} of memory here`
  if (devices === undefined) return `✓ fits into the ${memory}, ✗ does not; no GPU is used`
  const { names, free, kind } = devices
  return (
    `layers that fit on ${names.join(' and ') || 'the GPU'} (${kind}, ${formatBytes(free.vram)} ` +
    `free; the rest in the ${memory}), for \`--gpu-layers\`; ✗ does not fit`
  )
}

/** A command with sizes that fit and that most people need: up to 8 slots of up to 8,192 tokens. */
function advice(spec: string, fitting: readonly Sizes[], layers: number | undefined): string {
  const worth = ({ contextSize, slots }: Sizes) => Math.min(contextSize, 8192) * Math.min(slots, 8)
  const [best, ...others] = fitting
  if (best === undefined) return 'It does not fit; `cllm models` lists smaller ones.\n'
  const { contextSize, slots } = others.reduce((a, b) => (worth(b) > worth(a) ? b : a), best)
  const more = layers === undefined ? '' : ` --gpu-layers ${layers}`
  return `run: cllm serve --model ${spec} --slots ${slots} --ctx-size ${contextSize}${more}\n`
}

/** Powers of two up to the training context, and the training context itself. */
function contextsOf({ trainingContext }: ModelShape): number[] {
  const sizes: number[] = []
  for (let size = least; size < trainingContext; size *= 2) sizes.push(size)
  return [...sizes, trainingContext]
}
