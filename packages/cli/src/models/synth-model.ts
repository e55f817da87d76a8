import { mkdir } from 'node:fs/promises'
import { dirname } from 'node:path'
import {
  SYNTHETIC_SHAPES,
  writeSyntheticModel,
  type SyntheticModelName,
} from '@cllm/backend-llamacpp/gguf'
import { CllmError } from '@cllm/core'

/** Which GGUF with random weights is written. */
export interface SynthModelOptions {
  /** The model whose shape, quantization and size of vocabulary it gets. */
  readonly like: string
  /** Path of the file; its folder is made where it is missing. */
  readonly out: string
  /** Seed of the weights. Default 0. */
  readonly seed?: number
}

/** The models that can be imitated. */
export const SYNTHETIC_NAMES = Object.keys(SYNTHETIC_SHAPES) as SyntheticModelName[]

/**
 * Writes a model for measuring without a download: as fast as the real one, and its text is noise.
 *
 * @returns the file's size in bytes
 * @throws `invalid_configuration` for a model that cannot be imitated, `model_unavailable` when the
 *   file cannot be written
 */
export async function synthModel({ like, out, seed = 0 }: SynthModelOptions): Promise<number> {
  const name = SYNTHETIC_NAMES.find((known) => known === like)
  if (name === undefined) {
    const expected = SYNTHETIC_NAMES.join(', ')
    throw new CllmError(
      'invalid_configuration',
      `cannot imitate the model "${like}": one of ${expected} expected`,
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
