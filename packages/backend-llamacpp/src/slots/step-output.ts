import { type BatchItem, CllmError, type StepOutput, type TokenId } from '@cllm/core'

/**
 * What was drawn after a position.
 * @throws CllmError `backend_failed` when no token could be drawn
 */
export function outputOf({ slot }: BatchItem, position: number, token: TokenId): StepOutput {
  if (token >= 0) return { position, token }
  throw new CllmError('backend_failed', `no token can be drawn in slot ${slot}`)
}

/**
 * Whether the token that was drawn as the `nth`, from 1, is not the draft in its place: what is
 * computed behind it belongs to another text.
 */
export function isRefuted(
  { position, tokens, outputs, drafts = 0 }: BatchItem,
  nth: number,
  token: TokenId,
): boolean {
  return drafts > 0 && tokens[outputs[0]! - position + nth] !== token
}
