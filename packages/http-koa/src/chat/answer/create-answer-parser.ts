import type { ChatMessage, EngineClient } from '@cllm/core'
import type { AnswerParser, AnswerPart } from './answer-part.js'
import type { ChatFormat } from '../chat-format.js'
import { ReasoningParser } from './reasoning-parser.js'
import { type CallOpening, ToolCallParser } from './tool-call-parser.js'

/** What an answer may hold. */
export interface AnswerForm {
  readonly toolNames: readonly string[]
  /** Default: any number. */
  readonly mostCalls?: number
  /** Default: as any model writes them. */
  readonly callsBegin?: CallOpening
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
  const { toolNames, thinks, thinkingIsOpen } = form
  const inner =
    toolNames.length === 0
      ? plainText
      : new ToolCallParser(toolNames, { streams, most: form.mostCalls, begin: form.callsBegin })
  return thinks ? new ReasoningParser(inner, thinkingIsOpen) : inner
}

const nothing: readonly AnswerPart[] = []

const plainText: AnswerParser = {
  push: (text) => (text === '' ? nothing : [{ type: 'text', text }]),
  end: () => nothing,
}

const probe: readonly ChatMessage[] = [{ role: 'user', content: 'Hello' }]

/** Whether the template, with these variables, ends the prompt with an open `<think>`. */
export async function opensThinking(
  client: EngineClient,
  { thinks }: ChatFormat,
  variables: Readonly<Record<string, unknown>>,
): Promise<boolean> {
  if (!thinks) return false
  const { text } = await client.applyTemplate(probe, { variables })
  return text.trimEnd().endsWith('<think>')
}
