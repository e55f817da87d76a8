import {
  type ChatRenderOptions,
  CllmError,
  type EngineClient,
  type GenerateRequest,
} from '@cllm/core'
import { z } from 'zod'
import { messagesSchema, toChatMessages } from '../../chat/chat-messages.js'
import type { AnswerForm } from '../../chat/answer/create-answer-parser.js'
import { marksOf } from '../../chat/format/marks-of.js'
import { efforts, thinkingVariables } from '../../chat/thinking-variables.js'
import { prepareChat } from '../../chat/prepare-chat.js'
import { buildRequest } from '../../request/build-request.js'
import { boolean, integer, largest, object } from '../../fields/fields.js'
import type { ProtocolDefaults } from '../../request/protocol-defaults.js'
import { grammarConstraint, onlyConstraint } from '../../request/constraint.js'
import { formatConstraint } from '../openai-constraint.js'
import { sharedFields, sharedSettings } from '../openai-fields.js'
import {
  strictNames,
  toolChoiceSchema,
  toolConstraint,
  toolsSchema,
  toTool,
} from '../openai-tools.js'

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
  reasoning_effort: z.enum(efforts, `one of ${efforts.join(', ')}`).nullish(),
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
  const logprobs = logprobsOf(fields)
  const offered = (fields.tools ?? []).map((tool) => tool.function)
  const tools = fields.tool_choice === 'none' ? [] : offered.map(toTool)
  const { prompt, form, calls } = await prepareChat(client, {
    messages: toChatMessages(fields.messages),
    tools,
    strict: strictNames(fields.tool_choice, offered),
    template: renderOptions(fields),
    mostCalls: fields.parallel_tool_calls === false ? 1 : undefined,
  })
  const constraint = await onlyConstraint(client, [
    formatConstraint(fields.response_format),
    grammarConstraint(fields.grammar),
    toolConstraint(fields.tool_choice, tools),
    calls && { field: 'tools', constraint: calls },
  ])
  const settings = sharedSettings(fields)
  const marks = marksOf(form.format)
  const maxTokens = fields.max_completion_tokens ?? settings.maxTokens
  return {
    request: buildRequest(
      prompt,
      { ...settings, maxTokens, constraint, logprobs, marks },
      defaults,
    ),
    // a constrained answer has no room for reasoning
    form: constraint === calls ? form : { ...form, thinks: false },
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
    variables: {
      ...thinkingVariables(fields.reasoning_effort),
      ...fields.chat_template_kwargs,
    },
  }
}

/** How many of the likeliest tokens to return with each token; undefined: no logprobs. */
function logprobsOf({ logprobs, top_logprobs: top }: ChatFields): number | undefined {
  if (logprobs === true) return top ?? 0
  if (top === undefined || top === 0) return undefined
  const field = 'top_logprobs'
  const message = `${field}: expected logprobs to be true`
  throw new CllmError('invalid_request', message, { details: { field } })
}
