import type { ChatMessage, ChatRenderOptions, EngineClient, Prompt } from '@cllm/core'
import { chatFormatOf } from './chat-format.js'
import { type AnswerForm, opensThinking } from './create-answer-parser.js'
import { promptWithTools, type ToolDefinition } from './tool-prompt.js'

/** A conversation that is to be answered. */
export interface Chat {
  readonly messages: readonly ChatMessage[]
  readonly tools: readonly ToolDefinition[]
  readonly template: ChatRenderOptions
  /** Most tool calls in an answer; default: any number. */
  readonly mostCalls?: number | undefined
}

/** A conversation for the engine, and what its answer may hold. */
export interface PreparedChat {
  readonly prompt: Extract<Prompt, { messages: unknown }>
  readonly form: AnswerForm
}

/** Puts the tools into the prompt as the model's template wants them. */
export async function prepareChat(client: EngineClient, chat: Chat): Promise<PreparedChat> {
  const { tools, template, mostCalls } = chat
  const format = chatFormatOf(await client.info())
  const rendered = promptWithTools(chat.messages, tools, format.tools)
  const variables = { ...template.variables, ...rendered.variables }
  const thinkingIsOpen =
    template.continueFinalMessage !== true && (await opensThinking(client, format, variables))
  return {
    prompt: { messages: rendered.messages, template: { ...template, variables } },
    form: {
      toolNames: tools.map((tool) => tool.function.name),
      ...(mostCalls === undefined ? {} : { mostCalls }),
      thinks: format.thinks,
      thinkingIsOpen,
    },
  }
}
