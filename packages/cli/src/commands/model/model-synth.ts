import { syntheticShapes, writeSyntheticModel, type SyntheticModelName } from '@cllm/gguf'
import { CllmError } from '@cllm/core'
import { reasonOf } from '../../config/messages.js'
import { formatBytes } from '../../process/terminal.js'
import { defineCommand } from '../command.js'
import { one, wrong, integer, resultFile } from '../flags.js'

/** The models that can be imitated. */
const syntheticNames = Object.keys(syntheticShapes) as SyntheticModelName[]

/**
 * Writes a model for benchmarks without a download: as fast as the real one, with noise as output.
 *
 * @param like - the model to imitate in shape, quantization and vocabulary size
 * @param out - path of the file, in a folder that exists
 * @returns the file's size in bytes
 * @throws `invalid_configuration` for a model that cannot be imitated, `model_unavailable` when the
 *   file cannot be written
 */
export async function synthModel(like: string, out: string, seed = 0): Promise<number> {
  const name = syntheticNames.find((known) => known === like)
  if (name === undefined) {
    const expected = syntheticNames.join(', ')
    const message = `cannot imitate the model "${like}": expected one of ${expected}`
    const details = { field: 'like', expected, received: like }
    throw new CllmError('invalid_configuration', message, { details })
  }
  try {
    return await writeSyntheticModel({ like: name, out, seed })
  } catch (cause) {
    const message = `${out}: cannot be written: ${reasonOf(cause)}`
    throw new CllmError('model_unavailable', message, { cause })
  }
}

/** `cllm model synth` */
export const run = defineCommand({
  usage: 'model synth',
  doc: `
Writes a GGUF with the exact shape and quantization of a model and random weights, for benchmarks
without a download: as fast as the real model, with noise for output. Needs --like and --out.`,
  flags: {
    like: one('NAME', syntheticNames.join(', ')),
    out: one('FILE', 'The file to write', resultFile),
    seed: one('N', 'The same seed gives the same file', integer(0, 999_999_999), '0'),
  },
  async run({ flags: { like, out, seed } }, io) {
    if (like === undefined) {
      throw wrong(`--like is missing: expected one of ${syntheticNames.join(', ')}`)
    }
    if (out === undefined) throw wrong('--out is missing: expected the path of a file')
    const bytes = await synthModel(like, out, seed)
    io.stdout.write(`${out}: ${formatBytes(bytes)}\n`)
  },
})
