import { z } from 'zod'
import { messagesSchema, toChatMessages } from '../chat/chat-messages.js'
import { prepareChat } from '../chat/prepare-chat.js'
import type { KoaContext } from '../routes/koa-context.js'
import { boolean, name, object, text, tokenIds } from '../fields/fields.js'
import { readFields } from '../fields/read-fields.js'
import { unsupported } from '../request/unsupported.js'
import type { LlamaServerContext } from './llama-server-context.js'

/** The body of `POST /tokenize`. */
export const tokenizeSchema = z.object({
  content: text,
  add_special: boolean.optional(),
  parse_special: boolean.optional(),
  with_pieces: boolean.optional(),
  model: name.optional(),
})

/** `POST /tokenize`: the tokens of a text. */
export async function tokenize(ctx: KoaContext, llama: LlamaServerContext): Promise<void> {
  const fields = await readFields(ctx, tokenizeSchema, llama.unknownFields)
  if (fields.with_pieces === true) throw unsupported('with_pieces', 'tokens come as numbers only')
  const options = { addBos: fields.add_special ?? false, special: fields.parse_special ?? true }
  ctx.body = { tokens: await llama.directory.open(fields.model).tokenize(fields.content, options) }
}

/** The body of `POST /detokenize`. */
export const detokenizeSchema = z.object({ tokens: tokenIds, model: name.optional() })

/** `POST /detokenize`: the text of tokens. */
export async function detokenize(ctx: KoaContext, llama: LlamaServerContext): Promise<void> {
  const fields = await readFields(ctx, detokenizeSchema, llama.unknownFields)
  ctx.body = { content: await llama.directory.open(fields.model).detokenize(fields.tokens) }
}

/** The body of `POST /apply-template`. */
export const applyTemplateSchema = z.object({
  messages: messagesSchema,
  add_generation_prompt: boolean.optional(),
  chat_template_kwargs: object.optional(),
  model: name.optional(),
})

/** `POST /apply-template`: a conversation as the model's template writes it. */
export async function applyTemplate(ctx: KoaContext, llama: LlamaServerContext): Promise<void> {
  const fields = await readFields(ctx, applyTemplateSchema, llama.unknownFields)
  const client = llama.directory.open(fields.model)
  const { prompt } = await prepareChat(client, {
    messages: toChatMessages(fields.messages),
    tools: [],
    template: {
      addGenerationPrompt: fields.add_generation_prompt ?? true,
      variables: fields.chat_template_kwargs ?? {},
    },
  })
  const { text: rendered } = await client.applyTemplate(prompt.messages, prompt.template)
  ctx.body = { prompt: rendered }
}
