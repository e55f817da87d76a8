import { defined, type EngineClient, type Prompt, type TokenId } from '@cllm/core'
import { z } from 'zod'
import type { AnswerForm } from '../../chat/answer/create-answer-parser.js'
import { prepareChat, type PreparedChat, thinkingVariables } from '../../chat/prepare-chat.js'
import { boolean, isTokenList, text } from '../../fields/fields.js'
import { beginsWith, gapPrompt } from '../../request/prompt-text.js'
import { noMedia } from '../../request/refusals.js'
import type { CallOf } from '../../routes/route.js'
import { answer, type AnswerWords, loadOrUnload } from './answer-stream.js'
import { refuseTemplate } from './models/ollama-preset.js'
import { type OllamaContext, openOllamaModel } from './ollama-context.js'
import { imagesOf, sharedFields } from './ollama-fields.js'

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
    .meta({ type: 'array', items: { type: 'integer' } })
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
  if (!asks) {
    return await loadOrUnload(call, client, fields, words)
  }
  refuseTemplate(fields.template)
  const { prompt, form } = await prepare(client, fields)
  // what stands for an image is no token that a client can send again
  const hasContext = fields.raw !== true && !fields.images?.length
  return await answer(call, client, ollama, { fields, prompt, form, words, started, hasContext })
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
): Promise<{ prompt: Prompt; form: AnswerForm }> {
  const { prompt: text = '', suffix = '', context = [], raw = false } = fields
  const media = imagesOf(fields.images, 'images')
  const isFollowing = context.length > 0
  if (media !== undefined && (raw || suffix !== '' || isFollowing)) throw noMedia('images', 'image')
  if (raw) return { prompt: { text }, form: plain }
  if (suffix !== '') return { prompt: await gapPrompt(client, { text }, suffix), form: plain }
  const { preset } = client
  const chat = {
    messages: [{ role: 'user', content: text, ...defined({ media }) }],
    // a system of the request's goes before the preset's
    preamble: isFollowing ? {} : { ...preset, system: fields.system ?? preset?.system },
    tools: [],
    template: { variables: thinkingVariables(fields.think) },
  }
  const prepared = await prepareChat(client, chat)
  return isFollowing ? await behind(client, context, prepared) : prepared
}

/** A conversation that goes on behind the tokens of an earlier one. */
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
