import type {
  ChatMessage,
  ChatRenderOptions,
  EngineClient,
  OutputConstraint,
  Prompt,
} from '@cllm/core'
import { chatFormatOf } from './chat-format.js'
import { type AnswerForm, opensThinking } from './answer/create-answer-parser.js'
import { strictCalls } from './strict-calls.js'
import { promptWithTools, type ToolDefinition } from './tool-prompt.js'

/** A conversation to answer. */
export interface Chat {
  readonly messages: readonly ChatMessage[]
  readonly tools: readonly ToolDefinition[]
  /** Names of the strict tools, whose arguments must match their schemas. */
  readonly strict?: readonly string[]
  readonly template: ChatRenderOptions
  /** Most tool calls in an answer; default: any number. */
  readonly mostCalls?: number | undefined
}

/** A conversation for the engine, and what its answer may hold. */
export interface PreparedChat {
  readonly prompt: Extract<Prompt, { messages: unknown }>
  readonly form: AnswerForm
  /** The constraint that strict tools need. */
  readonly calls?: OutputConstraint
}

/** Puts the tools into the prompt as the model's template wants them. */
export async function prepareChat(client: EngineClient, chat: Chat): Promise<PreparedChat> {
  const { tools, template, mostCalls, strict = [] } = chat
  const format = chatFormatOf(await client.info())
  const rendered = promptWithTools(chat.messages, tools, format.tools)
  const variables = { ...template.variables, ...rendered.variables }
  const thinkingIsOpen =
    template.continueFinalMessage !== true && (await opensThinking(client, format, variables))
  const form: AnswerForm = {
    toolNames: tools.map((tool) => tool.function.name),
    ...(mostCalls === undefined ? {} : { mostCalls }),
    ...(strict.length === 0 ? {} : { callsBegin: format.tools === 'hermes' ? 'marked' : 'bare' }),
    thinks: format.thinks,
    thinkingIsOpen,
  }
  return {
    prompt: { messages: rendered.messages, template: { ...template, variables } },
    form,
    ...(strict.length === 0 ? {} : { calls: strictCalls(tools, strict, format.tools, form) }),
  }
}
