import { CllmError, type EngineClient, type TokenId } from '@cllm/core'
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

/** What makes a prompt of a conversation. */
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
export const tokenizeSchema = z.object({
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
export async function tokenize(ctx: KoaContext, llama: LlamaServerContext): Promise<void> {
  const fields = await readFields(ctx, tokenizeSchema, llama.unknownFields)
  if (fields.content === undefined) {
    ctx.body = await tokenizeForVllm(ctx, fields, llama)
    return
  }
  const options = { addBos: fields.add_special ?? false, special: fields.parse_special ?? true }
  const client = llama.directory.open(fields.model)
  const tokens = await client.tokenize(fields.content, options)
  const signal = abortOnClose(ctx)
  const areTexts = fields.with_pieces === true
  ctx.body = { tokens: areTexts ? await withPieces(client, tokens, signal) : tokens }
}

/** The tokens of a prompt or a conversation, in vLLM's form. */
async function tokenizeForVllm(
  ctx: KoaContext,
  { prompt, messages, ...fields }: TokenizeFields,
  { directory }: LlamaServerContext,
): Promise<object> {
  const client = directory.open(fields.model)
  const tokens =
    messages !== undefined
      ? (await renderChat(ctx, client, { ...fields, messages })).tokens
      : await client.tokenize(given(prompt), { addBos: fields.add_special_tokens ?? true })
  const { limits } = await client.info()
  const pieces = fields.return_token_strs === true ? await textsOf(client, tokens) : null
  return {
    count: tokens.length,
    max_model_len: limits.contextSize,
    tokens,
    token_strs: pieces,
  }
}

const textsOf = async (client: EngineClient, tokens: readonly TokenId[]) =>
  await Promise.all(tokens.map(async (token) => await client.detokenize([token])))

function given(prompt: string | undefined): string {
  if (prompt !== undefined) return prompt
  throw new CllmError('invalid_request', 'Missing required field: content', {
    details: { field: 'content', expected: 'a string', received: 'undefined' },
  })
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
  const content = await llama.directory.open(fields.model).detokenize(fields.tokens)
  // as vLLM's clients read it
  ctx.body = { content, prompt: content }
}

/** The body of `POST /apply-template`. */
export const applyTemplateSchema = z.object({ messages: messagesSchema, ...chatFields })

/** `POST /apply-template`: a conversation as the model's template writes it. */
export async function applyTemplate(ctx: KoaContext, llama: LlamaServerContext): Promise<void> {
  const fields = await readFields(ctx, applyTemplateSchema, llama.unknownFields)
  const client = llama.directory.open(fields.model)
  const { text: rendered } = await renderChat(ctx, client, fields)
  const start = await bosText(client)
  // a prompt gets it anyway
  ctx.body = { prompt: rendered.startsWith(start) ? rendered.slice(start.length) : rendered }
}

/** A conversation as a chat renders it. */
async function renderChat(
  ctx: KoaContext,
  client: EngineClient,
  fields: z.output<typeof applyTemplateSchema>,
): ReturnType<EngineClient['applyTemplate']> {
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
  return await client.applyTemplate(prompt.messages, prompt.template)
}
