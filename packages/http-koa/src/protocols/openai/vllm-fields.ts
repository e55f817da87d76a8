import { z } from 'zod'
import { boolean, integer, largest } from '../../fields/fields.js'
import { list } from '../../fields/list.js'
import { unsupported } from '../../request/unsupported.js'

/** Fields of vLLM that change an answer and cannot be kept to here, so that none is ignored. */
export const vllmFields = {
  min_tokens: integer(0, largest).optional(),
  stop_token_ids: list(integer(0, largest), 'token ids').optional(),
  include_stop_str_in_output: boolean.optional(),
  prompt_logprobs: integer(-1, largest).optional(),
  truncate_prompt_tokens: integer(-1, largest).optional(),
  return_token_ids: boolean.optional(),
}

const vllmSchema = z.object(vllmFields)

/**
 * Refuses what would change the answer; values that mean "no" pass.
 *
 * @throws `unsupported`
 */
export function refuseVllmFields(fields: z.output<typeof vllmSchema>): void {
  if ((fields.min_tokens ?? 0) > 0) {
    throw unsupported('min_tokens', 'not kept to; ignore_eos goes on to max_tokens')
  }
  if ((fields.stop_token_ids ?? []).length > 0) {
    throw unsupported('stop_token_ids', 'name texts in stop')
  }
  if (fields.include_stop_str_in_output === true) {
    throw unsupported('include_stop_str_in_output', 'an answer ends before its stop text')
  }
  if (fields.return_token_ids === true) {
    throw unsupported('return_token_ids', '/tokenize has the tokens of a text')
  }
  if (fields.prompt_logprobs !== undefined) {
    throw unsupported('prompt_logprobs', '/v1/completions has them with echo and logprobs')
  }
  if (fields.truncate_prompt_tokens !== undefined) {
    throw unsupported('truncate_prompt_tokens', 'send the part of the prompt that is to be read')
  }
}
