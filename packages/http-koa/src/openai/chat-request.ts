import {
  type ChatRenderOptions,
  CllmError,
  type EngineClient,
  type GenerateRequest,
} from '@cllm/core'
import { z } from 'zod'
import { messagesSchema, toChatMessages } from '../chat/chat-messages.js'
import type { AnswerForm } from '../chat/create-answer-parser.js'
import { prepareChat } from '../chat/prepare-chat.js'
import { buildRequest } from '../request/build-request.js'
import { boolean, integer, largest, object } from '../request/fields.js'
import type { ProtocolDefaults } from '../request/protocol-defaults.js'
import { onlyConstraint } from '../request/constraint.js'
import { unsupported } from '../request/refuse-unsupported.js'
import { formatConstraint, grammarConstraint } from './openai-constraint.js'
import { sharedFields, sharedSettings } from './openai-fields.js'
import { toolChoiceSchema, toolConstraint, toolsSchema, toTool } from './openai-tools.js'

/** The body of `POST /v1/chat/completions`. */
export const chatSchema = z.object({
  messages: messagesSchema,
  ...sharedFields,
  max_completion_tokens: integer(1, largest).optional(),
  logprobs: boolean.optional(),
  top_logprobs: integer(0, 20).optional(),
  tools: toolsSchema.optional(),
  tool_choice: toolChoiceSchema.optional(),
  parallel_tool_calls: boolean.optional(),
  chat_template_kwargs: object.optional(),
  add_generation_prompt: boolean.optional(),
  continue_final_message: boolean.optional(),
})

/** A checked body. */
export type ChatFields = z.output<typeof chatSchema>

/** A chat for the engine. */
export interface ChatRequest {
  readonly request: GenerateRequest
  readonly form: AnswerForm
}

/** Makes the engine's request of a body. */
export async function toChatRequest(
  fields: ChatFields,
  client: EngineClient,
  defaults: ProtocolDefaults,
): Promise<ChatRequest> {
  refuse(fields)
  const logprobs = logprobsOf(fields)
  const tools =
    fields.tool_choice === 'none' ? [] : (fields.tools ?? []).map((tool) => toTool(tool.function))
  const constraint = await onlyConstraint(client, [
    formatConstraint(fields.response_format),
    grammarConstraint(fields.grammar),
    toolConstraint(fields.tool_choice, tools),
  ])
  const { prompt, form } = await prepareChat(client, {
    messages: toChatMessages(fields.messages),
    tools,
    template: renderOptions(fields),
    mostCalls: fields.parallel_tool_calls === false ? 1 : undefined,
  })
  const settings = sharedSettings(fields)
  const maxTokens = fields.max_completion_tokens ?? settings.maxTokens
  return {
    request: buildRequest(prompt, { ...settings, maxTokens, constraint, logprobs }, defaults),
    // what is held to a form leaves no room to think
    form: constraint === undefined ? form : { ...form, thinks: false },
  }
}

function renderOptions(fields: ChatFields): ChatRenderOptions {
  const goesOn = fields.continue_final_message ?? false
  if (goesOn && fields.messages.at(-1)?.role !== 'assistant') {
    const field = 'continue_final_message'
    const message = `${field}: expected the last message to be the assistant's`
    throw new CllmError('invalid_request', message, { details: { field } })
  }
  return {
    addGenerationPrompt: fields.add_generation_prompt ?? true,
    continueFinalMessage: goesOn,
    variables: fields.chat_template_kwargs ?? {},
  }
}

/** How many of the likeliest tokens are wanted with each one; undefined: no probabilities. */
function logprobsOf({ logprobs, top_logprobs: top }: ChatFields): number | undefined {
  if (logprobs === true) return top ?? 0
  if (top === undefined || top === 0) return undefined
  const field = 'top_logprobs'
  const message = `${field}: expected logprobs to be true`
  throw new CllmError('invalid_request', message, { details: { field } })
}

/** What cannot be kept to. */
function refuse({ tools = [], tool_choice: choice = 'auto' }: ChatFields): void {
  const strict = tools.findIndex((tool) => tool.function.strict === true)
  if (strict >= 0 && choice === 'auto') {
    const field = `tools.${strict}.function.strict`
    throw unsupported(
      field,
      'arguments follow their schema where tool_choice is required or a tool',
    )
  }
}
