import { type ChatMessage, type ChatToolCall, defined } from '@cllm/core'
import { requestId } from '@cllm/host'
import { z } from 'zod'
import type { ToolCall } from '../../chat/answer/answer-part.js'
import { fitConversation, prepareChat, thinkingVariables } from '../../chat/prepare-chat.js'
import { toTool } from '../../chat/format/chat-format.js'
import { withNames } from '../../chat/message-content.js'
import { list, object, parsedJson, text } from '../../fields/fields.js'
import type { CallOf } from '../../routes/route.js'
import { answer, type AnswerWords, loadOrUnload } from './answer-stream.js'
import { type OllamaContext, openOllamaModel } from './ollama-context.js'
import { imagesOf, sharedFields, toolSchema } from './ollama-fields.js'

const roles = ['system', 'user', 'assistant', 'tool'] as const

const callSchema = z.object(
  {
    id: text.nullish(),
    function: z.object(
      { name: text.min(1, 'a name'), arguments: object.optional() },
      'an object with name and arguments',
    ),
  },
  'a tool call',
)

type Called = z.output<typeof callSchema>

const messageSchema = z.object(
  {
    role: z.enum(roles, `one of ${roles.join(', ')}`),
    content: text.nullish(),
    thinking: text.nullish(),
    images: z.array(z.unknown(), 'an array of images').nullish(),
    tool_name: text.nullish(),
    tool_call_id: text.nullish(),
    tool_calls: list(callSchema, 'an array of tool calls').nullish(),
  },
  'a message',
)

/** The body of `POST /api/chat`. */
export const chatSchema = z.object({
  ...sharedFields,
  messages: list(messageSchema, 'an array of messages').optional(),
  tools: list(toolSchema, 'an array of tools', { most: [128, 'at most 128 tools'] }).optional(),
})

const callOf = ({ name, arguments: given }: ToolCall, id: string) => ({
  id,
  function: { name, arguments: parsedJson(given) },
})

const message = (members: object) => ({ message: { role: 'assistant', ...members } })

const wordsOf = (newId: () => string): AnswerWords => ({
  part(part) {
    if (part.type === 'call') {
      return message({ content: '', tool_calls: [callOf(part.call, newId())] })
    }
    const { text } = part
    return message(part.type === 'text' ? { content: text } : { content: '', thinking: text })
  },
  empty: message({ content: '' }),
  whole: ({ content, reasoning: thinking, calls }) =>
    message({
      content,
      ...(thinking !== '' && { thinking }),
      ...(calls.length > 0 && { tool_calls: calls.map((call) => callOf(call, newId())) }),
    }),
})

/** `POST /api/chat`. Without messages the model is only loaded, or with `keep_alive` 0 unloaded. */
export async function chat(call: CallOf<typeof chatSchema>, ollama: OllamaContext) {
  const { fields } = call
  const started = call.clock.now()
  const client = openOllamaModel(call, fields.model, fields.keep_alive)
  const { messages = [], tools = [] } = fields
  const words = wordsOf(() => `call_${requestId(call.random)}`)
  if (messages.length === 0) {
    return await loadOrUnload(call, client, fields, words)
  }
  const given = withNames(messages.map(toChatMessage))
  const isContinued = given.at(-1)?.role === 'assistant' && (given.at(-1)?.content ?? '') !== ''
  const chat = {
    messages: given,
    tools: tools.map((tool) => toTool(tool.function)),
    template: { continueFinalMessage: isContinued, variables: thinkingVariables(fields.think) },
  }
  const fits = fields.truncate === false ? chat : await fitConversation(client, chat)
  const { prompt, form } = await prepareChat(client, fits)
  return await answer(call, client, ollama, { fields, prompt, form, words, started })
}

const toToolCall = ({ id, function: { name, arguments: given = {} } }: Called): ChatToolCall => ({
  ...defined({ id: id ?? undefined }),
  type: 'function',
  function: { name, arguments: given },
})

function toChatMessage(
  {
    role,
    content,
    thinking,
    images,
    tool_name: name,
    tool_call_id: answers,
    tool_calls: calls,
  }: z.output<typeof messageSchema>,
  index: number,
): ChatMessage {
  return {
    role,
    content: content ?? '',
    ...defined({ media: imagesOf(images, `messages.${index}.images`) }),
    ...defined({
      name: name ?? undefined,
      tool_call_id: answers ?? undefined,
      reasoning_content: thinking ?? undefined,
      tool_calls: calls?.length ? calls.map(toToolCall) : undefined,
    }),
  }
}
