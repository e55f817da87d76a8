import type {
  ChatMessage,
  ChatRenderOptions,
  EngineClient,
  OutputConstraint,
  Prompt,
} from '@cllm/core'
import { chatFormatOf } from './format/chat-format-of.js'
import { type AnswerForm, promptEnd } from './answer/create-answer-parser.js'
import { preambleOf } from '../request/model-defaults.js'
import { type Preamble, withPreamble } from './preamble.js'
import { thinkingVariables } from './thinking-variables.js'
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
  /** What comes before the messages; default: what the model has of its own. */
  readonly preamble?: Preamble
}

/** A conversation for the engine, and what its answer may hold. */
export interface PreparedChat {
  readonly prompt: Extract<Prompt, { messages: unknown }>
  /** The conversation with what comes before it, before the tools are put into it. */
  readonly messages: readonly ChatMessage[]
  readonly form: AnswerForm
  /** The constraint that strict tools need. */
  readonly calls?: OutputConstraint
  /** The same where the thoughts that the prompt opens were ended in it. */
  readonly callsAfterThinking?: OutputConstraint
  /** Names of the strict tools; absent: none is. */
  readonly strict?: readonly string[]
}

/** Puts the tools into the prompt as the model's template wants them. */
export async function prepareChat(client: EngineClient, chat: Chat): Promise<PreparedChat> {
  const { tools, template, mostCalls, strict = [], preamble = preambleOf(client) } = chat
  const [format, { model }] = await Promise.all([chatFormatOf(client), client.info()])
  const messages = withPreamble(preamble, chat.messages)
  const rendered = promptWithTools(messages, tools, format)
  // what the operator has set, where the client does not say
  const thinks = thinkingVariables(toBoolean(model.details?.['reasoning']))
  const variables = { ...thinks, ...template.variables, ...rendered.variables }
  const { thinkingIsOpen, suffix } =
    template.continueFinalMessage === true || template.addGenerationPrompt === false
      ? { thinkingIsOpen: false, suffix: undefined }
      : await promptEnd(client, format, variables)
  const form: AnswerForm = {
    tools,
    ...(mostCalls === undefined ? {} : { mostCalls }),
    format,
    thinks: format.thinking !== undefined,
    thinkingIsOpen,
  }
  const prompt = {
    messages: rendered.messages,
    template: { ...template, variables, ...(suffix === undefined ? {} : { suffix }) },
  }
  if (strict.length === 0) return { prompt, messages, form }
  const { constraint, call } = strictCalls(tools, strict, form)
  // what the model writes its own way counts as well where no mark of it can be held to a schema
  const own = call.head === '' && format.own !== undefined ? [format.own] : []
  const kept = { ...form, format: { ...format, calls: [...own, call] } }
  const prepared = { prompt, messages, form: kept, calls: constraint, strict }
  if (!thinkingIsOpen) return prepared
  const after = strictCalls(tools, strict, { ...form, thinkingIsOpen: false })
  return { ...prepared, callsAfterThinking: after.constraint }
}

const toBoolean = (reasoning: unknown): boolean | undefined =>
  typeof reasoning === 'boolean' ? reasoning : undefined
