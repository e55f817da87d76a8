import { defined } from '@cllm/core'
import type { EngineClient, Prompt, TokenId, ChatMessage, ChatToolCall } from '@cllm/core'
import { z } from 'zod'
import type { AnswerForm } from '../../chat/answer/create-answer-parser.js'
import { prepareChat, thinkingVariables, fitConversation } from '../../chat/prepare-chat.js'
import type { PreparedChat } from '../../chat/prepare-chat.js'
import { boolean, isTokenList, text, list, object, parsedJson } from '../../fields/fields.js'
import { beginsWith, gapPrompt } from '../../request/prompt-text.js'
import { unsupported } from '../../request/refusals.js'
import type { CallOf } from '../../routes/route.js'
import { answer, type AnswerWords, loadOrUnload } from './answer-stream.js'
import { refuseTemplate } from './modelfile.js'
import { openOllamaModel, imagesOf, sharedFields, toolSchema } from './ollama-shared.js'
import type { OllamaContext } from './ollama-shared.js'
import { requestId } from '@cllm/host'
import type { ToolCall } from '../../chat/answer/answer-part.js'
import { toTool } from '../../chat/format/chat-format.js'
import { withNames } from '../../chat/message-content.js'

/** The body of `POST /api/generate`. */
export const generateSchema = z.object({
  ...sharedFields,
  prompt: text.optional(),
  system: text.optional(),
  raw: boolean.optional(),
  suffix: text.optional(),
  template: text.optional(),
  images: z.array(z.unknown(), 'an array of images').optional(),
  context: z
    .custom<number[]>(isTokenList, 'an array of tokens')
    .meta({ type: 'array', items: { type: 'integer', minimum: 0 } })
    .optional(),
})

type GenerateFields = z.output<typeof generateSchema>

const words: AnswerWords = {
  part(part) {
    if (part.type === 'call') return { response: '' }
    const { text } = part
    return part.type === 'reasoning' ? { response: '', thinking: text } : { response: text }
  },
  empty: { response: '' },
  whole: ({ content: response, reasoning: thinking }) => ({
    response,
    ...(thinking !== '' && { thinking }),
  }),
}

/** `POST /api/generate`. Without a prompt the model is only loaded, or with `keep_alive` 0 unloaded. */
export async function generate(call: CallOf<typeof generateSchema>, ollama: OllamaContext) {
  const { fields } = call
  const started = call.clock.now()
  const client = openOllamaModel(call, fields.model, fields.keep_alive)
  const asks = [fields.prompt, fields.suffix, fields.images].some((given) => given?.length)
  if (!asks) return await loadOrUnload(call, client, fields, words)
  refuseTemplate(fields.template)
  const { prompt, form } = await prepare(client, fields)
  // an image has no tokens that a client could send back
  const hasContext = fields.raw !== true && !fields.images?.length
  return await answer(call, client, ollama, { fields, prompt, form, words, started, hasContext })
}

const plain: AnswerForm = {
  tools: [],
  format: { calls: [], frame: { open: '', closings: [] } },
  thinks: false,
  thinkingIsOpen: false,
}

/** Prepares the prompt: a raw one is continued unchanged, any other one is a user's message. */
async function prepare(client: EngineClient, fields: GenerateFields) {
  const { prompt: text = '', suffix = '', context = [], raw = false } = fields
  const media = imagesOf(fields.images, 'images')
  const isFollowing = context.length > 0
  if (media !== undefined && (raw || suffix !== '' || isFollowing)) {
    throw unsupported('images', 'only in a chat or a prompt without raw, suffix and context')
  }
  if (raw) return { prompt: { text }, form: plain }
  if (suffix !== '') return { prompt: await gapPrompt(client, { text }, suffix), form: plain }
  const { preset } = client
  const chat = {
    messages: [{ role: 'user', content: text, ...defined({ media }) }],
    // the request's system prompt takes precedence over the preset's
    preamble: isFollowing ? {} : { ...preset, system: fields.system ?? preset?.system },
    tools: [],
    template: { variables: thinkingVariables(fields.think) },
  }
  const prepared = await prepareChat(client, chat)
  return isFollowing ? await behind(client, context, prepared) : prepared
}

/** Continues a conversation, given as tokens, with a new message. */
async function behind(
  client: EngineClient,
  context: readonly TokenId[],
  { prompt, form }: PreparedChat,
): Promise<{ prompt: Prompt; form: AnswerForm }> {
  const { tokens } = await client.applyTemplate(prompt.messages, prompt.template)
  const start = await client.tokenize('')
  const more = beginsWith(tokens, start) ? tokens.slice(start.length) : tokens
  return { prompt: { tokens: [...context, ...more] }, form }
}

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
  if (messages.length === 0) return await loadOrUnload(call, client, fields, words)
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

function toChatMessage(given: z.output<typeof messageSchema>, index: number): ChatMessage {
  const { role, content, thinking, tool_calls: calls } = given
  return {
    role,
    content: content ?? '',
    ...defined({
      media: imagesOf(given.images, `messages.${index}.images`),
      name: given.tool_name ?? undefined,
      tool_call_id: given.tool_call_id ?? undefined,
      reasoning_content: thinking ?? undefined,
      tool_calls: calls?.length ? calls.map(toToolCall) : undefined,
    }),
  }
}
