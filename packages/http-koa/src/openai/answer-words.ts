import { type FinishReason, requestId } from '@cllm/core'
import type { ToolCall } from '../chat/answer/answer-part.js'
import type { KoaContext } from '../routes/koa-context.js'

/** A tool call in an answer. */
export const toolCallOf = (ctx: KoaContext, call: ToolCall): object => ({
  id: `call_${requestId(ctx.state.transport.random)}`,
  type: 'function',
  function: call,
})

/** OpenAI's word for the end of an answer. */
export const finishOf = (reason: FinishReason, hasCalls: boolean): string =>
  hasCalls && reason === 'stop' ? 'tool_calls' : reason
