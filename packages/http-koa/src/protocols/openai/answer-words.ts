import { type FinishReason, requestId } from '@cllm/core'
import type { ToolCall } from '../../chat/answer/answer-part.js'
import type { Call } from '../../routes/call.js'
import { customInput } from './tools/custom-tools.js'

/** A tool call in an answer; that of a free-form tool has its input as a text. */
export function toolCallOf(
  { random }: Pick<Call, 'random'>,
  call: ToolCall,
  customs: ReadonlySet<string>,
): object {
  const id = `call_${requestId(random)}`
  if (!customs.has(call.name)) return { id, type: 'function', function: call }
  const custom = { name: call.name, input: customInput(call.arguments) }
  return { id, type: 'custom', custom }
}

/** OpenAI's word for the end of an answer. */
export const finishOf = (reason: FinishReason, hasCalls: boolean): string =>
  hasCalls && reason === 'stop' ? 'tool_calls' : reason
