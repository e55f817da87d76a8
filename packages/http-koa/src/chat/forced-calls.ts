import type { OutputConstraint } from '@cllm/core'
import { callsSchema } from './calls-schema.js'
import { thoughtsEnd } from './strict-calls.js'
import type { PreparedChat } from './prepare-chat.js'
import type { ToolDefinition } from './tool-prompt.js'

/** What a forced call needs. */
export interface ForcedCalls {
  readonly prompt: PreparedChat['prompt']
  readonly form: PreparedChat['form']
  readonly constraint: OutputConstraint
  /** The same where the thoughts have ended. */
  readonly afterThinking: OutputConstraint
}

/**
 * Holds an answer to a call of one of these tools. A model whose prompt opens its thoughts thinks
 * first: the constraint begins where they end.
 */
export function forcedCalls(
  { prompt, form }: Pick<PreparedChat, 'prompt' | 'form'>,
  tools: readonly ToolDefinition[],
): ForcedCalls {
  const schema = callsSchema(tools)
  const afterThinking = { type: 'json-schema', schema } as const
  const end = thoughtsEnd(form)
  if (end === undefined) {
    const plain = { ...form, thinks: false }
    return { prompt, form: plain, constraint: afterThinking, afterThinking }
  }
  const constraint = { type: 'triggered-json', trigger: end, schema } as const
  return { prompt, form, constraint, afterThinking }
}
