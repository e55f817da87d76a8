import type { ChatRenderOptions } from '@cllm/core'
import type { ClientMessage } from './chat-messages.js'
import { expectedField } from '../request/expected-field.js'

/** What a client says of the end of its conversation. */
export interface TurnFields {
  readonly messages: readonly ClientMessage[]
  readonly add_generation_prompt?: boolean | undefined
  readonly continue_final_message?: boolean | undefined
}

/**
 * Whether an answer is a new turn or goes on with the last message. As with llama-server it goes on with
 * one of the assistant's that has a text, unless the client asks for a new turn.
 *
 * @throws `invalid_request` where the client asks for both, or the assistant speaks twice at the end
 */
export function turnOptions({
  messages,
  add_generation_prompt: isNew,
  continue_final_message: asked,
}: TurnFields): ChatRenderOptions {
  const [before, last] = [messages.at(-2), messages.at(-1)]
  const isAnswer = last?.role === 'assistant'
  if (asked === true && !isAnswer) {
    throw expectedField('continue_final_message', "the last message to be the assistant's")
  }
  if (asked === true && isNew === true) {
    throw expectedField('continue_final_message', 'add_generation_prompt to be false')
  }
  const hasText = last?.content !== undefined && last.content !== null && last.content !== ''
  const hasCalls = (last?.tool_calls ?? []).length > 0
  const goesOn = asked ?? (isAnswer && hasText && !hasCalls && isNew === undefined)
  if (goesOn && before?.role === 'assistant' && (before.tool_calls ?? []).length === 0) {
    throw expectedField('messages', 'one message of the assistant at the end, instead got two')
  }
  return { addGenerationPrompt: isNew ?? true, continueFinalMessage: goesOn }
}
