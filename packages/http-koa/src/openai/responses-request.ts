import { type ChatMessage, CllmError, type EngineClient } from '@cllm/core'
import { z } from 'zod'
import { textOf } from '../chat/chat-messages.js'
import { prepareChat } from '../chat/prepare-chat.js'
import { buildRequest } from '../request/build-request.js'
import { onlyConstraint } from '../request/constraint.js'
import { boolean, integer, largest, object } from '../request/fields.js'
import type { ProtocolDefaults } from '../request/protocol-defaults.js'
import { unsupported } from '../request/refuse-unsupported.js'
import type { ChatRequest } from './chat-request.js'
import { formatConstraint } from './openai-constraint.js'
import { sharedFields, sharedSettings } from './openai-fields.js'

const roles = ['system', 'developer', 'user', 'assistant'] as const

const itemSchema = z.looseObject(
  {
    type: z.string('a text').optional(),
    role: z.enum(roles, `one of ${roles.join(', ')}`).optional(),
    content: z
      .custom<string | readonly unknown[]>(
        (value) => typeof value === 'string' || Array.isArray(value),
        'a text or an array of parts',
      )
      .meta({ anyOf: [{ type: 'string' }, { type: 'array', items: { type: 'object' } }] })
      .nullish(),
  },
  'an object',
)

const items = z.array(itemSchema, 'an array of messages').min(1, 'at least one message')

const { shape: settings } = z.object(sharedFields).omit({
  n: true,
  stream_options: true,
  max_tokens: true,
  grammar: true,
  response_format: true,
})

/** The body of `POST /v1/responses`. */
export const responsesSchema = z.object({
  input: z.union([z.string('a text').min(1, 'a text'), items], 'a text or an array of messages'),
  ...settings,
  instructions: z.string('a text').optional(),
  max_output_tokens: integer(1, largest).optional(),
  text: z.looseObject({ format: object.optional() }, 'an object').optional(),
  metadata: object.optional(),
  store: boolean.optional(),
  truncation: z.enum(['disabled', 'auto'], 'disabled or auto').optional(),
  tools: z.array(z.unknown(), 'an array of tools').optional(),
  tool_choice: z.unknown().optional(),
  parallel_tool_calls: boolean.optional(),
  background: boolean.optional(),
  previous_response_id: z.unknown().optional(),
  conversation: z.unknown().optional(),
  prompt: z.unknown().optional(),
  top_logprobs: integer(0, 20).optional(),
  chat_template_kwargs: object.optional(),
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
  const constraint = await onlyConstraint(client, [textConstraint(fields.text?.format)])
  const { prompt, form } = await prepareChat(client, {
    messages: toMessages(fields),
    tools: [],
    template: { variables: fields.chat_template_kwargs ?? {} },
  })
  const maxTokens = fields.max_output_tokens
  return {
    request: buildRequest(prompt, { ...sharedSettings(fields), maxTokens, constraint }, defaults),
    // what is held to a form leaves no room to think
    form: constraint === undefined ? form : { ...form, thinks: false },
  }
}

function toMessages({ instructions = '', input }: ResponsesFields): ChatMessage[] {
  const system = instructions === '' ? [] : [{ role: 'system', content: instructions }]
  if (typeof input === 'string') return [...system, { role: 'user', content: input }]
  const messages = input.flatMap((item, index) => {
    const field = `input.${index}`
    const { type = 'message', role, content } = item
    // what a model thought earlier is not shown to it again
    if (type === 'reasoning') return []
    if (type !== 'message') throw unsupported(`${field}.type`, 'expected messages only')
    if (role === undefined) throw expected(`${field}.role`, `one of ${roles.join(', ')}`)
    const text = textOf(content ?? '', `${field}.content`)
    return [{ role: role === 'developer' ? 'system' : role, content: text }]
  })
  if (messages.length === 0) throw expected('input', 'at least one message')
  return [...system, ...messages]
}

/** The same formats as in a chat, but for the place of the schema. */
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
  if ((fields.tools ?? []).length > 0) {
    throw unsupported('tools', '/v1/chat/completions takes tools')
  }
  if (fields.truncation === 'auto') throw unsupported('truncation', 'input is never cut')
  if ((fields.top_logprobs ?? 0) > 0) {
    throw unsupported('top_logprobs', '/v1/chat/completions gives probabilities')
  }
}

function expected(field: string, what: string): CllmError {
  return new CllmError('invalid_request', `${field}: expected ${what}`, { details: { field } })
}
