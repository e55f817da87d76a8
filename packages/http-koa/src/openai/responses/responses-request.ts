import type { EngineClient } from '@cllm/core'
import { z } from 'zod'
import { marksOf } from '../../chat/format/marks-of.js'
import { efforts, thinkingVariables } from '../../chat/thinking-variables.js'
import { prepareChat } from '../../chat/prepare-chat.js'
import { buildRequest } from '../../request/build-request.js'
import { onlyConstraint } from '../../request/constraint.js'
import { boolean, integer, largest, object } from '../../fields/fields.js'
import { list } from '../../fields/list.js'
import type { ProtocolDefaults } from '../../request/protocol-defaults.js'
import { unsupported } from '../../request/unsupported.js'
import type { ChatRequest } from '../chat/chat-request.js'
import { formatConstraint } from '../openai-constraint.js'
import { sharedFields, sharedSettings } from '../openai-fields.js'
import {
  functionFields,
  strictNames,
  toolChoiceSchema,
  toolConstraint,
  toTool,
} from '../openai-tools.js'
import { inputSchema, toMessages } from './responses-input.js'

const toolSchema = z.looseObject(
  { type: z.literal('function', 'function'), ...functionFields },
  'a tool of the type function',
)

const { shape: shared } = z.object(sharedFields).omit({
  n: true,
  stream_options: true,
  max_tokens: true,
  grammar: true,
  response_format: true,
})

/** The body of `POST /v1/responses`. */
export const responsesSchema = z.object({
  input: inputSchema,
  ...shared,
  instructions: z.string('a string').optional(),
  max_output_tokens: integer(1, largest).optional(),
  text: z.looseObject({ format: object.optional() }, 'an object').optional(),
  metadata: object.optional(),
  store: boolean.optional(),
  truncation: z.enum(['disabled', 'auto'], 'disabled or auto').optional(),
  tools: list(toolSchema, 'an array of tools', { most: [128, 'at most 128 tools'] }).optional(),
  tool_choice: toolChoiceSchema.optional(),
  parallel_tool_calls: boolean.optional(),
  background: boolean.optional(),
  previous_response_id: z.unknown().optional(),
  conversation: z.unknown().optional(),
  prompt: z.unknown().optional(),
  top_logprobs: integer(0, 20).optional(),
  chat_template_kwargs: object.optional(),
  reasoning: z
    .looseObject({ effort: z.enum(efforts, `one of ${efforts.join(', ')}`).nullish() }, 'an object')
    .nullish(),
})

/** A checked body. */
export type ResponsesFields = z.output<typeof responsesSchema>

/** Makes the engine's request of a body. */
export async function toResponsesRequest(
  fields: ResponsesFields,
  client: EngineClient,
  defaults: ProtocolDefaults,
): Promise<ChatRequest> {
  refuse(fields)
  const offered = fields.tools ?? []
  const tools = fields.tool_choice === 'none' ? [] : offered.map(toTool)
  const { prompt, form, calls } = await prepareChat(client, {
    messages: toMessages(fields.instructions ?? '', fields.input),
    tools,
    strict: strictNames(fields.tool_choice, offered),
    template: {
      variables: {
        ...thinkingVariables(fields.reasoning?.effort),
        ...fields.chat_template_kwargs,
      },
    },
    mostCalls: fields.parallel_tool_calls === false ? 1 : undefined,
  })
  const constraint = await onlyConstraint(client, [
    textConstraint(fields.text?.format),
    toolConstraint(fields.tool_choice, tools),
    calls && { field: 'tools', constraint: calls },
  ])
  const maxTokens = fields.max_output_tokens
  const marks = marksOf(form.format)
  const settings = { ...sharedSettings(fields), maxTokens, constraint, marks }
  return {
    request: buildRequest(prompt, settings, defaults),
    // a constrained answer has no room for reasoning
    form: constraint === calls ? form : { ...form, thinks: false },
  }
}

/** The same formats as in a chat, with the schema in another place. */
function textConstraint(format: Readonly<Record<string, unknown>> | undefined) {
  const given = format?.['type'] === 'json_schema' ? { ...format, json_schema: format } : format
  const found = formatConstraint(given)
  return found && { ...found, field: 'text.format' }
}

const nothingStored = 'nothing is stored here; send the whole conversation as input'

function refuse(fields: ResponsesFields): void {
  for (const field of ['previous_response_id', 'conversation', 'prompt'] as const) {
    if (fields[field] !== undefined) throw unsupported(field, nothingStored)
  }
  if (fields.background === true) throw unsupported('background', nothingStored)
  if (fields.truncation === 'auto') throw unsupported('truncation', 'the input is never truncated')
  if ((fields.top_logprobs ?? 0) > 0) {
    throw unsupported('top_logprobs', 'use /v1/chat/completions for logprobs')
  }
}
