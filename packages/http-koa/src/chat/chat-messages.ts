import { type ChatMessage, type ChatRenderOptions, type ChatToolCall, defined } from '@cllm/core'
import { z } from 'zod'
import { parseNested } from '../body/read-body.js'
import { isObject, type JsonObject, list, object, text } from '../fields/fields.js'
import { expectedField } from '../request/refusals.js'
import { contentOf, withNames } from './message-content.js'

const roles = ['system', 'developer', 'user', 'assistant', 'tool', 'function'] as const

/** A text, or an array of parts, which are checked later one by one. */
export const partsSchema = (expected: string) =>
  z.union([z.string(), z.array(z.unknown().meta({ type: 'object' }))], expected)

/** A text, or an array of parts. */
export const contentSchema = partsSchema('a string or an array of parts')

const name = z.string('a name').min(1, 'a name')
const objectAsText = 'a JSON object as a string'
const callArguments = z.union([text, object], objectAsText)
const functionExpected = 'an object with name and arguments'

const toolCall = z
  .object(
    {
      id: text.optional(),
      type: z.enum(['function', 'custom'], 'function or custom').default('function'),
      function: z.object({ name, arguments: callArguments }, functionExpected).optional(),
      custom: z.object({ name, input: text }, 'an object with name and input').optional(),
    },
    'a tool call',
  )
  // a call must have the object for its type
  .refine((call) => (call.type === 'custom' ? call.custom : call.function) !== undefined, {
    path: ['function'],
    error: functionExpected,
  })

/** One message of a conversation, as OpenAI's clients send it. */
export const messageSchema = z
  .object(
    {
      role: z.enum(roles, `one of ${roles.join(', ')}`),
      content: contentSchema.nullish(),
      name: z.string('a name').nullish(),
      tool_calls: list(toolCall, 'an array of tool calls').nullish(),
      tool_call_id: text.nullish(),
      reasoning_content: text.nullish(),
    },
    'a message',
  )
  .refine(
    ({ role, content }) => role === 'assistant' || (content !== undefined && content !== null),
    { path: ['content'], error: 'a string or an array of parts' },
  )

/** A checked message of a client. */
export type ClientMessage = z.output<typeof messageSchema>

/** The messages of a conversation, at least one. */
export const messagesSchema = list(messageSchema, 'an array of messages', {
  least: [1, 'an array of at least one message'],
})

/**
 * The messages in the form that chat templates take.
 *
 * @throws `unsupported` for content that is neither text nor image
 */
export function toChatMessages(messages: readonly ClientMessage[]): ChatMessage[] {
  let hasResults = false
  const all = messages.map((message, index) => {
    const { content, tool_calls: calls } = message
    const role = templateRoles[message.role] ?? message.role
    hasResults ||= role === 'tool'
    return {
      role,
      ...contentOf(content ?? '', `messages.${index}.content`, role),
      ...defined({
        name: message.name ?? undefined,
        tool_calls: calls?.length
          ? calls.map((call, nth) => toToolCall(call, index, nth))
          : undefined,
        tool_call_id: message.tool_call_id ?? undefined,
        reasoning_content: message.reasoning_content ?? undefined,
      }),
    }
  })
  return hasResults ? withNames(all) : all
}

/** The roles in templates for OpenAI's newer roles. */
const templateRoles: Readonly<Record<string, string>> = { developer: 'system', function: 'tool' }

function toToolCall(call: z.output<typeof toolCall>, index: number, nth: number): ChatToolCall {
  const field = `messages.${index}.tool_calls.${nth}.function.arguments`
  // for models, a free-form tool is a function with one text argument
  const { name, arguments: given } = call.function ?? {
    name: call.custom?.name ?? '',
    arguments: { input: call.custom?.input ?? '' },
  }
  return {
    ...(call.id === undefined ? {} : { id: call.id }),
    type: 'function',
    function: { name, arguments: argumentsOf(given, field) },
  }
}

/**
 * The arguments of a call as an object: templates serialize them themselves.
 *
 * @throws `invalid_request`
 */
export function argumentsOf(given: string | JsonObject, field: string): JsonObject {
  if (typeof given !== 'string') return given
  const value = parseNested(given === '' ? '{}' : given, field, objectAsText)
  if (isObject(value)) return value
  throw expectedField(field, objectAsText)
}

/** The fields that tell how a conversation ends. */
export interface TurnFields {
  readonly messages: readonly ClientMessage[]
  readonly add_generation_prompt?: boolean | undefined
  readonly continue_final_message?: boolean | undefined
}

/**
 * Whether the answer is a new turn or continues the last message. As in llama-server, it continues an assistant's message
 * with a text, unless the client asks for a new turn.
 *
 * @throws `invalid_request` where the client asks for both, or the assistant speaks twice at the end
 */
export function turnOptions(fields: TurnFields): ChatRenderOptions {
  const { messages, add_generation_prompt: isNew, continue_final_message: asked } = fields
  const [before, last] = [messages.at(-2), messages.at(-1)]
  const isAnswer = last?.role === 'assistant'
  if (asked === true && !isAnswer) {
    throw expectedField('continue_final_message', "the last message to be the assistant's")
  }
  if (asked === true && isNew === true) {
    throw expectedField('continue_final_message', 'add_generation_prompt to be false')
  }
  const hasText = last?.content !== undefined && last.content !== null && last.content !== ''
  const hasCalls = (last?.tool_calls ?? []).length > 0
  const goesOn = asked ?? (isAnswer && hasText && !hasCalls && isNew === undefined)
  if (goesOn && before?.role === 'assistant' && (before.tool_calls ?? []).length === 0) {
    throw expectedField('messages', 'one message of the assistant at the end, instead got two')
  }
  return { addGenerationPrompt: isNew ?? true, continueFinalMessage: goesOn }
}
