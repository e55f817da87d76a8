import type { EngineClient, Prompt, TokenId } from '@cllm/core'
import { z } from 'zod'
import type { AnswerForm } from '../chat/answer/create-answer-parser.js'
import { prepareChat } from '../chat/prepare-chat.js'
import type { KoaContext } from '../routes/koa-context.js'
import { boolean, text } from '../fields/fields.js'
import { readFields } from '../fields/read-fields.js'
import { unsupported } from '../request/unsupported.js'
import { answer, answerLoad, type AnswerWords } from './answer-stream.js'
import { renderGoTemplate, type TemplatePiece } from './go-template.js'
import { loadOrUnload } from './load-model.js'
import { type OllamaContext, openOllamaModel } from './ollama-context.js'
import { sharedFields, thinkVariables } from './ollama-fields.js'

/** The body of `POST /api/generate`. */
export const generateSchema = z.object({
  ...sharedFields,
  prompt: text.optional(),
  system: text.optional(),
  raw: boolean.optional(),
  suffix: text.optional(),
  template: text.optional(),
  images: z.array(z.unknown(), 'an array of images').optional(),
  context: z.array(z.unknown(), 'an array of tokens').optional(),
})

type GenerateFields = z.output<typeof generateSchema>

const words: AnswerWords = {
  part(part) {
    if (part.type === 'call') return '"response":""'
    const text = JSON.stringify(part.text)
    return part.type === 'reasoning' ? `"response":"","thinking":${text}` : `"response":${text}`
  },
  empty: '"response":""',
  whole({ content, reasoning }) {
    const thinking = reasoning === '' ? '' : `,"thinking":${JSON.stringify(reasoning)}`
    return `"response":${JSON.stringify(content)}${thinking}`
  },
}

/** `POST /api/generate`. Without a prompt the model is only loaded, or with `keep_alive` 0 unloaded. */
export async function generate(ctx: KoaContext, ollama: OllamaContext): Promise<void> {
  const fields = await readFields(ctx, generateSchema, ollama.unknownFields)
  const client = openOllamaModel(ollama.directory, fields.model, fields.keep_alive)
  refuse(fields)
  if ((fields.prompt ?? '') === '') {
    answerLoad(ctx, fields.model, words, await loadOrUnload(ollama.directory, client, fields))
    return
  }
  // a template makes no more of a prompt than a body can say
  const limit = ctx.state.transport.bodyLimitBytes
  const { prompt, form } = await prepare(client, fields, limit)
  await answer(ctx, client, ollama, { route: '/api/generate', fields, prompt, form, words })
}

const plain: AnswerForm = {
  tools: [],
  format: { calls: [], frame: { open: '', closings: [] } },
  thinks: false,
  thinkingIsOpen: false,
}

/** A raw prompt is continued as it is; any other one is a user's message. */
async function prepare(
  client: EngineClient,
  fields: GenerateFields,
  limit: number,
): Promise<{ prompt: Prompt; form: AnswerForm }> {
  const text = fields.prompt ?? ''
  if (fields.raw === true) return { prompt: { text }, form: plain }
  const system = fields.system ?? ''
  if ((fields.template ?? '') !== '') {
    const pieces = renderGoTemplate(fields.template ?? '', { System: system, Prompt: text }, limit)
    return { prompt: { tokens: await tokensOf(client, pieces) }, form: plain }
  }
  return await prepareChat(client, {
    messages: [
      ...(system === '' ? [] : [{ role: 'system', content: system }]),
      { role: 'user', content: text },
    ],
    tools: [],
    template: { variables: thinkVariables(fields) },
  })
}

/** The template's words may name special tokens; what it shows may not. */
async function tokensOf(
  client: EngineClient,
  pieces: readonly TemplatePiece[],
): Promise<TokenId[]> {
  const [start, ...parts] = await Promise.all([
    client.tokenize(''),
    ...pieces.map(({ text, isValue }) =>
      client.tokenize(text, { addBos: false, special: !isValue }),
    ),
  ])
  const tokens = parts.flat()
  // a template may say itself how a prompt begins
  return start.every((token, index) => tokens[index] === token) ? tokens : [...start, ...tokens]
}

function refuse(fields: GenerateFields): void {
  if ((fields.suffix ?? '') !== '') throw unsupported('suffix', 'this model cannot fill gaps')
  if ((fields.images ?? []).length > 0) throw unsupported('images', 'this model takes text only')
  if ((fields.context ?? []).length > 0) {
    throw unsupported('context', 'send the conversation to /api/chat instead')
  }
}
