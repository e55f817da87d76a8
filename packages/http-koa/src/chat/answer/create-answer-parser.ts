import type { ChatMessage, EngineClient } from '@cllm/core'
import type { ChatFormat } from '../format/chat-format.js'
import type { ToolDefinition } from '../tool-prompt.js'
import type { AnswerParser } from './answer-part.js'
import { AnswerReader } from './answer-reader.js'
import { StreamedCalls, WholeCalls } from './call-parsers.js'

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
  /** The tools of which the answer calls one and holds nothing else; default: it may hold anything. */
  readonly forced?: readonly string[]
}

/**
 * A parser for one answer of this form.
 *
 * @param streams - whether the arguments of tool calls are streamed, instead of whole calls
 */
export function createAnswerParser(form: AnswerForm, streams = false): AnswerParser {
  const { tools, format, mostCalls = Infinity, thinks, thinkingIsOpen, forced } = form
  const reader = new AnswerReader({
    format: thinks ? format : { ...format, thinking: undefined },
    tools: new Map(tools.map((tool) => [tool.function.name, tool])),
    mostCalls,
    thinkingIsOpen: thinks && thinkingIsOpen && format.thinking !== undefined,
  })
  return streams ? new StreamedCalls(reader, forced) : new WholeCalls(reader, forced)
}

const probe: readonly ChatMessage[] = [{ role: 'user', content: 'Hello' }]

/** The end of a prompt: whether it opens the reasoning, and what ends that where none is wanted. */
export interface PromptEnd {
  readonly thinkingIsOpen: boolean
  readonly suffix?: string
}

/**
 * How the template, with these variables, ends a prompt. Where a client wants no reasoning and the
 * template cannot leave it out, the prompt gets an empty one.
 */
export async function promptEnd(
  client: EngineClient,
  { thinking }: Pick<ChatFormat, 'thinking'>,
  variables: Readonly<Record<string, unknown>>,
): Promise<PromptEnd> {
  if (thinking === undefined) return { thinkingIsOpen: false }
  const { open, close } = thinking
  const rendered = async (more: object) =>
    (await client.applyTemplate(probe, { variables: { ...variables, ...more } })).text
  const text = await rendered({})
  const isOpen = text.trimEnd().endsWith(open)
  // a channel is a part of each answer
  if (variables['enable_thinking'] !== false || /channel/.test(open)) {
    return { thinkingIsOpen: isOpen }
  }
  if (isOpen) return { thinkingIsOpen: false, suffix: close }
  const isClosed = text.trimEnd().endsWith(close)
  const isSame = !isClosed && text === (await rendered({ enable_thinking: true, thinking: true }))
  return { thinkingIsOpen: false, ...(isSame ? { suffix: open + close } : {}) }
}
