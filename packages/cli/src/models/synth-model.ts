import { mkdir } from 'node:fs/promises'
import { dirname } from 'node:path'
import { syntheticShapes, writeSyntheticModel, type SyntheticModelName } from '@cllm/gguf'
import { CllmError } from '@cllm/core'

/** The GGUF with random weights to write. */
export interface SynthModelOptions {
  /** The model to imitate in shape, quantization and vocabulary size. */
  readonly like: string
  /** Path of the file; its folder is created if missing. */
  readonly out: string
  /** Seed of the weights. Default 0. */
  readonly seed?: number
}

/** The models that can be imitated. */
export const syntheticNames = Object.keys(syntheticShapes) as SyntheticModelName[]

/**
 * Writes a model for benchmarks without a download: as fast as the real one, with noise as output.
 *
 * @returns the file's size in bytes
 * @throws `invalid_configuration` for a model that cannot be imitated, `model_unavailable` when the
 *   file cannot be written
 */
export async function synthModel({ like, out, seed = 0 }: SynthModelOptions): Promise<number> {
  const name = syntheticNames.find((known) => known === like)
  if (name === undefined) {
    const expected = syntheticNames.join(', ')
    throw new CllmError(
      'invalid_configuration',
      `cannot imitate the model "${like}": expected one of ${expected}`,
      { details: { field: 'like', expected, received: like } },
    )
  }
  try {
    await mkdir(dirname(out), { recursive: true })
    return await writeSyntheticModel({ like: name, out, seed })
  } catch (error) {
    throw CllmError.from(error, 'model_unavailable')
  }
}
