import type { ChatMessage, EngineClient } from '@cllm/core'
import type { ChatFormat } from '../format/chat-format.js'
import type { ToolDefinition } from '../tool-prompt.js'
import type { AnswerParser } from './answer-part.js'
import { AnswerReader } from './answer-reader.js'
import { StreamedCalls, WholeCalls } from './whole-calls.js'

/** What an answer may hold. */
export interface AnswerForm {
  readonly tools: readonly ToolDefinition[]
  /** Default: any number. */
  readonly mostCalls?: number
  readonly format: Pick<ChatFormat, 'own' | 'calls' | 'thinking' | 'frame'>
  /** Whether the answer may begin with reasoning. */
  readonly thinks: boolean
  /** Whether the prompt already opens the reasoning. */
  readonly thinkingIsOpen: boolean
}

/**
 * A parser for one answer of this form.
 *
 * @param streams - whether the arguments of tool calls are streamed, instead of whole calls
 */
export function createAnswerParser(form: AnswerForm, streams = false): AnswerParser {
  const { tools, format, mostCalls = Infinity, thinks, thinkingIsOpen } = form
  const reader = new AnswerReader({
    format: thinks ? format : { ...format, thinking: undefined },
    tools: new Map(tools.map((tool) => [tool.function.name, tool])),
    mostCalls,
    thinkingIsOpen: thinks && thinkingIsOpen && format.thinking !== undefined,
  })
  return streams ? new StreamedCalls(reader) : new WholeCalls(reader)
}

const probe: readonly ChatMessage[] = [{ role: 'user', content: 'Hello' }]

/** Whether the template, with these variables, ends the prompt with reasoning that is open. */
export async function opensThinking(
  client: EngineClient,
  { thinking }: Pick<ChatFormat, 'thinking'>,
  variables: Readonly<Record<string, unknown>>,
): Promise<boolean> {
  if (thinking === undefined) return false
  const { text } = await client.applyTemplate(probe, { variables })
  return text.trimEnd().endsWith(thinking.open)
}
