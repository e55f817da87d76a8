import type { EngineClient, TokenId } from '@cllm/core'
import { z } from 'zod'
import { messagesSchema, toChatMessages } from '../../chat/chat-messages.js'
import { prepareChat } from '../../chat/prepare-chat.js'
import { toTool } from '../../chat/tool-prompt.js'
import type { KoaContext } from '../../routes/koa-context.js'
import { boolean, name, object, text, tokenIds } from '../../fields/fields.js'
import { readFields } from '../../fields/read-fields.js'
import { functionsOfChat, toolsSchema } from '../openai/tools/openai-tools.js'
import { efforts, thinkingVariables } from '../../chat/thinking-variables.js'
import { turnOptions } from '../../chat/turn-options.js'
import { abortOnClose } from '../../stream/abort-on-close.js'
import type { LlamaServerContext } from './llama-server-context.js'
import { bosText } from '../../request/prompt-text.js'

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
  const options = { addBos: fields.add_special ?? false, special: fields.parse_special ?? true }
  const client = llama.directory.open(fields.model)
  const tokens = await client.tokenize(fields.content, options)
  const signal = abortOnClose(ctx)
  const areTexts = fields.with_pieces === true
  ctx.body = { tokens: areTexts ? await withPieces(client, tokens, signal) : tokens }
}

/** Tokens that a character has at most. */
const longestRun = 4

/** The tokens with their texts, until the client leaves; parts of a character have their bytes. */
async function withPieces(
  client: EngineClient,
  tokens: readonly TokenId[],
  signal: AbortSignal,
): Promise<object[]> {
  const pieces: object[] = []
  // a text that begins loses its first space
  const before = await client.tokenize('a', { addBos: false })
  const { length } = await client.detokenize(before)
  let run: TokenId[] = []
  for (const [index, token] of tokens.entries()) {
    if (signal.aborted) break
    run.push(token)
    const text = (await client.detokenize([...before, ...run])).slice(length)
    const isWhole = text !== '' && !text.includes('\ufffd')
    if (!isWhole && run.length < longestRun && index < tokens.length - 1) continue
    const [only] = run
    if (isWhole && run.length === 1) pieces.push({ id: only, piece: text })
    else {
      const bytes = [...new TextEncoder().encode(text)]
      const last = run.length - 1
      pieces.push(
        ...run.map((id, nth) => ({ id, piece: nth < last ? [bytes[nth] ?? 0] : bytes.slice(nth) })),
      )
    }
    run = []
  }
  return pieces
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
  continue_final_message: boolean.optional(),
  chat_template_kwargs: object.optional(),
  reasoning_effort: z.enum(efforts, `one of ${efforts.join(', ')}`).nullish(),
  tools: toolsSchema.optional(),
  tool_choice: z.unknown().optional(),
  parallel_tool_calls: boolean.optional(),
  model: name.optional(),
})

/** `POST /apply-template`: a conversation as the model's template writes it. */
export async function applyTemplate(ctx: KoaContext, llama: LlamaServerContext): Promise<void> {
  const fields = await readFields(ctx, applyTemplateSchema, llama.unknownFields)
  const client = llama.directory.open(fields.model)
  const { prompt } = await prepareChat(client, {
    messages: toChatMessages(fields.messages),
    tools:
      fields.tool_choice === 'none'
        ? []
        : functionsOfChat(fields.tools ?? [], ctx.state.transport.logger).map(toTool),
    template: {
      ...turnOptions(fields),
      variables: { ...thinkingVariables(fields.reasoning_effort), ...fields.chat_template_kwargs },
    },
  })
  const { text: rendered } = await client.applyTemplate(prompt.messages, prompt.template)
  const start = await bosText(client)
  // a prompt gets it anyway
  ctx.body = { prompt: rendered.startsWith(start) ? rendered.slice(start.length) : rendered }
}
