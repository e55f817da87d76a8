import { CllmError } from '@cllm/core'
import type { PooledModel } from './pooled-model.js'

/** Whether a model that did not fit would fit if the models in memory were unloaded. */
export function mayFit({ details }: CllmError, heldBytes: number): boolean {
  const { total, available } = details
  if (typeof total !== 'number' || typeof available !== 'number' || heldBytes === 0) return true
  return total <= available + heldBytes
}

/** The failure with what the models in memory hold. */
export function explainMemory(error: CllmError, present: readonly PooledModel[]): CllmError {
  const held = present.map(({ name, loaded }) => `${name} ${gigabytes(loaded?.memoryBytes ?? 0)}`)
  const message = `${error.message}; models in memory hold ${held.join(', ')}`
  return new CllmError(error.code, message, { details: error.details, cause: error })
}

const gigabytes = (bytes: number): string => `${(bytes / 1e9).toFixed(1)} GB`
