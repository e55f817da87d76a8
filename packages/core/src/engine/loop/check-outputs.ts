import type { BatchItem, StepOutput, StepResult } from '../../contracts/model/backend.js'
import { CllmError } from '../../errors/cllm-error.js'

/** A step's outputs, or in place of an item's what is wrong with them. */
export type CheckedOutputs = readonly (readonly StepOutput[] | CllmError)[]

/**
 * The outputs of a step as the backend made them; each item whose outputs are not what it asked for has
 * an error in their place, so that its request fails and no other one.
 *
 * @param result - what came: a backend in plain JavaScript may have forgotten to return any of it
 */
export function checkOutputs(
  items: readonly BatchItem[],
  result: Partial<StepResult> | undefined,
  vocabularySize: number,
): CheckedOutputs {
  const outputs = result?.outputs
  if (!Array.isArray(outputs)) {
    const error = wrong('step: expected { outputs }, a list for each item', outputs)
    return items.map(() => error)
  }
  let checked: (readonly StepOutput[] | CllmError)[] | undefined
  for (const [index, item] of items.entries()) {
    const error = problemOf(item, outputs[index], vocabularySize)
    if (error !== undefined) (checked ??= [...outputs])[index] = error
  }
  return checked ?? outputs
}

function problemOf(
  { outputs: wanted, drafts = 0 }: BatchItem,
  drawn: readonly StepOutput[] | undefined,
  vocabularySize: number,
): CllmError | undefined {
  const count = drawn?.length ?? 0
  const least = drafts > 0 ? 1 : wanted.length
  if (!(count >= least && count <= wanted.length)) {
    const expected = least === wanted.length ? `${least}` : `${least} to ${wanted.length}`
    return wrong(`outputs: expected ${expected} for an item that wants ${wanted.length}`, count)
  }
  for (let index = 0; index < count; index++) {
    const token = drawn?.[index]?.token
    if (Number.isInteger(token) && token! >= 0 && token! < vocabularySize) continue
    return wrong(`outputs: expected a token from 0 to ${vocabularySize - 1}`, token)
  }
  return undefined
}

function wrong(expected: string, came: unknown): CllmError {
  const message = `The backend made a wrong step: ${expected}, instead got ${String(came)}`
  return new CllmError('backend_failed', message)
}
