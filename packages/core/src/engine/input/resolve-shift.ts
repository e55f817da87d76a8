import type { Backend } from '../../contracts/model/backend.js'
import type { ContextShift, GenerateRequest } from '../../contracts/engine/generate-request.js'
import type { TokenId, Tokenizer } from '../../contracts/model/tokenizer.js'
import { CllmError } from '../../errors/cllm-error.js'
import { checkNumber, invalidField } from './check-fields.js'

/** What leaves a full slot: the tokens from `keep` on, `discard` of them. */
export interface ShiftPlan {
  readonly keep: number
  readonly discard: number
}

/** What decides on it. */
interface ShiftContext {
  readonly tokenizer: Pick<Tokenizer, 'encode'>
  readonly backend: Pick<Backend, 'capabilities'>
  readonly limits: { readonly contextSize: number }
  readonly options: { readonly contextShift: boolean }
}

/** At least this many tokens of a slot are not kept. */
const leastMoving = 4

/**
 * Checks what a request says of context shift; the result says what leaves a full slot, or undefined
 * where the request ends then.
 *
 * @throws CllmError `invalid_request` or `unsupported`
 */
export function resolveShift(
  request: GenerateRequest,
  { tokenizer, backend, limits, options }: ShiftContext,
): ((prompt: readonly TokenId[]) => ShiftPlan) | undefined {
  const { promptLogprobs, contextShift = options.contextShift ? {} : false } = request
  if (contextShift === false) return undefined
  if (typeof contextShift !== 'object' || contextShift === null) {
    throw invalidField('contextShift', 'false or an object', contextShift)
  }
  const { keep = 0 }: ContextShift = contextShift
  checkNumber('contextShift.keep', keep, { min: -1, integer: true })
  if (backend.capabilities.contextShift !== true) {
    const details = { field: 'contextShift', capability: 'contextShift' }
    const message =
      "contextShift: this model's memory, or the way it is laid out, cannot be shifted"
    throw new CllmError('unsupported', message, { details })
  }
  if (promptLogprobs !== undefined) {
    const message = 'contextShift: expected none with promptLogprobs'
    throw new CllmError('invalid_request', message, { details: { field: 'contextShift' } })
  }
  return (prompt) => {
    const [begin] = tokenizer.encode('')
    const more = begin !== undefined && prompt[0] === begin ? 1 : 0
    const { contextSize } = limits
    const wanted = keep === -1 ? prompt.length : keep + more
    const kept = Math.max(0, Math.min(contextSize - leastMoving, wanted))
    return { keep: kept, discard: Math.max(1, Math.floor((contextSize - kept) / 2)) }
  }
}
