import type { ChatMessage, Embedding, EngineClient, PromptMedia } from '@cllm/core'
import { z } from 'zod'
import { messagesSchema, toChatMessages, turnOptions } from '../../chat/chat-messages.js'
import { toTool } from '../../chat/format/chat-format.js'
import { efforts, prepareChat, thinkingVariables } from '../../chat/prepare-chat.js'
import { type Answer, type Call, type CallOf, post, type Route } from '../../routes/route.js'
import { boolean, integer, name, object, text, tokenIds } from '../../fields/fields.js'
import { mediaMarker, mixedPrompts, readPrompts } from '../../fields/mixed-prompts.js'
import { embedAll, isUnpooled } from '../../request/embeddings.js'
import { functionsOfChat, toolsSchema } from '../openai/openai-tools.js'
import { missingField, unsupported } from '../../request/refusals.js'
import type { LlamaServerContext } from './completion-request.js'
import { bosText, bytesOf, piecesOf, promptTokens, spelledText } from '../../request/prompt-text.js'

/** The fields with which a conversation is rendered. */
const chatFields = {
  add_generation_prompt: boolean.optional(),
  continue_final_message: boolean.optional(),
  chat_template_kwargs: object.optional(),
  reasoning_effort: z.enum(efforts, `one of ${efforts.join(', ')}`).nullish(),
  tools: toolsSchema.optional(),
  tool_choice: z.unknown().optional(),
  parallel_tool_calls: boolean.optional(),
  model: name.optional(),
}

/** The body of `POST /tokenize`: llama-server's, or vLLM's with a `prompt` or `messages`. */
const tokenizeSchema = z.object({
  content: text.optional(),
  add_special: boolean.optional(),
  parse_special: boolean.optional(),
  with_pieces: boolean.optional(),
  prompt: text.optional(),
  add_special_tokens: boolean.optional(),
  return_token_strs: boolean.optional(),
  messages: messagesSchema.optional(),
  ...chatFields,
})

type TokenizeFields = z.output<typeof tokenizeSchema>

/** `POST /tokenize`: the tokens of a text or a conversation. */
async function tokenize(call: CallOf<typeof tokenizeSchema>): Promise<Answer> {
  const { fields, signal } = call
  if (fields.content === undefined) return await tokenizeForVllm(call, fields)
  const options = { addBos: fields.add_special ?? false, special: fields.parse_special ?? true }
  const { client } = call.open(fields.model)
  const tokens = await client.tokenize(fields.content, { ...options, signal })
  if (fields.with_pieces === true) {
    const pieces = await piecesOf(client, tokens, signal)
    return { tokens: pieces.map((piece, nth) => ({ id: tokens[nth], piece })) }
  }
  return { tokens }
}

/** The tokens of a prompt or a conversation, in vLLM's form. */
async function tokenizeForVllm(call: Call, { prompt, messages, ...fields }: TokenizeFields) {
  const { signal } = call
  const { client } = call.open(fields.model)
  const tokens =
    messages !== undefined
      ? await promptTokens(client, await chatPrompt(call, client, { ...fields, messages }))
      : await client.tokenize(given(prompt), {
          addBos: fields.add_special_tokens ?? true,
          signal,
        })
  const { limits } = await client.info()
  const isSpelled = fields.return_token_strs === true
  // a part of a character becomes U+FFFD
  const token_strs = isSpelled
    ? (await piecesOf(client, tokens, signal)).map((piece) => bytesOf(piece).toString())
    : null
  return { count: tokens.length, max_model_len: limits.contextSize, tokens, token_strs }
}

function given(prompt: string | undefined): string {
  if (prompt !== undefined) return prompt
  throw missingField('content', { expected: 'a string', received: 'undefined' })
}

/** The body of `POST /detokenize`. */
const detokenizeSchema = z.object({ tokens: tokenIds, model: name.optional() })

/** `POST /detokenize`: the text of tokens. */
async function detokenize(call: CallOf<typeof detokenizeSchema>): Promise<Answer> {
  const { fields, signal } = call
  const { client } = call.open(fields.model)
  const content = await spelledText(client, fields.tokens, signal)
  if (!content.startsWith(' ')) return { content, prompt: content }
  // in vLLM's form without the space that tokenizers put before a text
  const start = await client.detokenize(fields.tokens.slice(0, 1))
  return { content, prompt: start.startsWith(' ') ? content : content.slice(1) }
}

/** The body of `POST /apply-template`. */
const applyTemplateSchema = z.object({ messages: messagesSchema, ...chatFields })

/** `POST /apply-template`: a conversation as the model's chat template renders it. */
async function applyTemplate(call: CallOf<typeof applyTemplateSchema>): Promise<Answer> {
  const { fields } = call
  const client = call.open(fields.model).client
  const { messages, template } = await chatPrompt(call, client, fields)
  const { text: rendered } = await client.applyTemplate(messages.map(marked), template)
  const start = await bosText(client)
  // without the BOS token, which a prompt gets anyway
  return { prompt: rendered.startsWith(start) ? rendered.slice(start.length) : rendered }
}

const withMarker = (text: string, { at }: PromptMedia): string =>
  text.slice(0, at) + mediaMarker + text.slice(at)

/** A message with markers in place of its files, as `/completion` takes them. */
const marked = ({ media = [], content, ...others }: ChatMessage): ChatMessage => ({
  ...others,
  content: media.reduceRight(withMarker, content),
})

/** A conversation as a chat asks the engine. */
async function chatPrompt(
  call: Call,
  client: EngineClient,
  fields: z.output<typeof applyTemplateSchema>,
) {
  const { prompt } = await prepareChat(client, {
    messages: toChatMessages(fields.messages),
    tools: functionsOfChat(fields.tools ?? [], call.logger).map(toTool),
    mayCall: fields.tool_choice !== 'none',
    template: {
      ...turnOptions(fields),
      variables: { ...thinkingVariables(fields.reasoning_effort), ...fields.chat_template_kwargs },
    },
  })
  return prompt
}

/** The body of `POST /embedding`. */
const embeddingSchema = z.object({
  content: mixedPrompts(2048).optional(),
  input: mixedPrompts(2048).optional(),
  model: z.string('a name').optional(),
  embd_normalize: integer(-1, 2).optional(),
})

/** `POST /embedding`: one vector for each input. */
async function embedding(call: CallOf<typeof embeddingSchema>): Promise<Answer> {
  const { fields } = call
  const given = fields.input ?? fields.content
  if (given === undefined) throw missingField('input')
  const { client } = call.open(fields.model)
  const eachToken = await isUnpooled(client)
  if ((fields.embd_normalize ?? 2) !== 2 && !eachToken) {
    throw unsupported('embd_normalize', 'vectors always have the Euclidean length 1')
  }
  const prompts = await readPrompts(client, given)
  const made = await embedAll(client, prompts, call.signal, { eachToken })
  return made.map((one, index) => ({ index, embedding: eachToken ? rowsOf(one) : [one.vector] }))
}

/** The vectors of an input's tokens. */
function rowsOf({ vector, promptTokens }: Embedding): number[][] {
  const size = vector.length / promptTokens
  return Array.from({ length: promptTokens }, (_, row) =>
    vector.slice(row * size, (row + 1) * size),
  )
}

const embedded = { body: embeddingSchema }

/** llama-server's routes of texts: their tokens, templates and vectors. */
export const textRoutes: readonly Route<LlamaServerContext>[] = [
  post('/tokenize', 'user', 'Tokenize a text', tokenize, { body: tokenizeSchema }),
  post('/detokenize', 'user', 'Detokenize tokens', detokenize, { body: detokenizeSchema }),
  post(
    '/apply-template',
    'user',
    "Render a conversation with the model's chat template",
    applyTemplate,
    { body: applyTemplateSchema },
  ),
  post('/embedding', 'user', 'Embed texts', embedding, embedded),
  post('/embeddings', 'user', 'The same as /embedding', embedding, embedded),
]
