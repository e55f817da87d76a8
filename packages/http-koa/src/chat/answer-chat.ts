import type { EngineClient } from '@cllm/core'
import type { FieldConstraint } from '../request/constraint.js'
import { forcedCalls } from './forced-calls.js'
import { marksOf } from './format/marks-of.js'
import { type HeldAnswer, holdAnswer, type PreparedPrompt } from './hold-answer.js'
import type { ToolDefinition } from './tool-prompt.js'

/** Tools of which an answer must call one, and nothing else. */
export interface ForcedTools {
  readonly tools: readonly ToolDefinition[]
  /** Whether it may be several calls; default: the client says nothing of it. */
  readonly several?: boolean | undefined
}

/** What a client asks of an answer. */
export interface WantedAnswer {
  /** The fields that may ask for a form; at most one does. */
  readonly asked: readonly (FieldConstraint | undefined)[]
  readonly forced?: ForcedTools | undefined
}

/** All that an engine's request has of a conversation. */
export interface ChatAnswer extends HeldAnswer {
  /** What the model may write around text, reasoning and calls. */
  readonly marks: readonly string[] | undefined
}

/**
 * From a prepared conversation to what an engine's request has of it: the forced calls first, then what
 * holds the answer to them and to a form. The marks are those of the prepared conversation, as the form of
 * a held answer may know fewer.
 *
 * @throws CllmError `invalid_request` when two fields ask for something, or `unsupported`
 */
export async function answerChat(
  client: EngineClient,
  prepared: PreparedPrompt,
  { asked, forced }: WantedAnswer,
): Promise<ChatAnswer> {
  const calls = forced && (await forcedCalls(client, prepared, forced.tools, forced.several))
  const held = await holdAnswer(client, prepared, asked, calls)
  return { ...held, marks: marksOf(prepared.form.format) }
}
