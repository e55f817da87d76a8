import { gpuInUse, type ModelShape } from '@cllm/backend-llamacpp'
import { CllmError, silentLogger } from '@cllm/core'
import Table from 'cli-table3'
import { loadConfig } from '../../config/load-config.js'
import { availableMemory } from '../../engine/memory/available-memory.js'
import { memoryFor } from '../../models/catalog/memory-of.js'
import { formatBytes } from '../../models/format-bytes.js'
import { defineCommand } from '../flags/define-command.js'
import { toggle } from '../flags/flags.js'
import { knownModel } from '../../models/catalog/known-model.js'
import { configFlag, configFlags, modelsFolder } from './models-folder.js'

const slotCounts = [1, 2, 4, 8, 16] as const
const least = 2048

const flags = { json: toggle('Print JSON'), config: configFlag }

/** `cllm fit` */
export const run = defineCommand({
  usage: 'fit <model>',
  doc: `
Shows how much memory a model takes here: by context, in tokens per slot, and by number of slots.
The model is a name of the catalog, downloaded or not, or a file. Figures are with a KV cache in
f16; \`cllm serve --kv-cache-type q8_0\` takes half as much for it.`,
  flags,
  async run({ flags, words: [spec = ''] }, io) {
    const loaded = loadConfig({ argv: configFlags(flags.config), env: io.env })
    const { name, shape } = await knownModel(spec, modelsFolder(loaded, io.env))
    if (shape === undefined) {
      const message = `the shape of ${spec} is not known before it is downloaded: \`cllm pull ${spec}\``
      throw new CllmError('model_unavailable', message)
    }
    const available = availableMemory()
    const gpu = await gpuInUse(loaded.config.engine.gpu, silentLogger)
    const rows = contextsOf(shape).map((contextSize) => ({
      contextSize,
      memory: slotCounts.map((slots) => memoryFor(shape, slots, contextSize)),
    }))
    if (flags.json) {
      const fits = {
        model: name,
        available,
        gpu,
        weights: shape.sizeBytes,
        slots: slotCounts,
        rows,
      }
      io.stdout.write(`${JSON.stringify(fits, undefined, 2)}\n`)
      return 0
    }
    const head = [
      'tokens per slot',
      ...slotCounts.map((slots) => `${slots} slot${slots > 1 ? 's' : ''}`),
    ]
    const table = new Table({ head, style: { head: [], border: [], compact: true } })
    for (const { contextSize, memory } of rows) {
      const cells = memory.map((bytes) => `${formatBytes(bytes)} ${bytes <= available ? '✓' : '✗'}`)
      table.push([contextSize.toLocaleString('en'), ...cells])
    }
    const graphics =
      gpu === false ? 'no GPU is used' : `a GPU (${gpu}) is used, whose memory comes on top`
    io.stdout.write(
      `${name}: ${formatBytes(shape.sizeBytes)} of weights; ✓ fits into the ` +
        `${formatBytes(available)} of memory here, ✗ does not; ${graphics}\n${table.toString()}\n`,
    )
    return 0
  },
})

/** Powers of two up to the training context, and that. */
function contextsOf({ trainingContext }: ModelShape): number[] {
  const sizes: number[] = []
  for (let size = least; size < trainingContext; size *= 2) sizes.push(size)
  return [...sizes, trainingContext]
}
