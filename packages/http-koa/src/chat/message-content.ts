import type { ChatMessage, MediaType, ModelInfo, PromptMedia } from '@cllm/core'
import { defined } from '@cllm/core'
import { isUrl } from '../engines/media-urls.js'
import { isObject, type JsonObject } from '../fields/fields.js'
import { expectedField, noMedia } from '../request/refusals.js'

/** A part of a content: a text, an image or a sound. */
export type ContentPart = string | Omit<PromptMedia, 'at'>

/** What a message says. */
export type MessageContent = Pick<ChatMessage, 'content' | 'media'>

/**
 * A content's parts as one: each text on a line of its own as in llama-server, since a part is a file or a question, not
 * the middle of a word; those of an answer are paragraphs. Around an image there is no line of its own.
 *
 * @throws `unsupported` for content that is neither text, image nor sound
 */
export function contentOf(content: string | readonly unknown[], field: string, role?: string) {
  if (typeof content === 'string') return { content }
  const parts = content.map((part, index) => partOf(part, `${field}.${index}`))
  return joined(parts, role === 'assistant' ? '\n\n' : '\n')
}

/** Joins parts, texts with a separator between them. */
export function joined(parts: readonly ContentPart[], separator: string): MessageContent {
  let content = ''
  let isBehindImage = false
  const media: PromptMedia[] = []
  for (const part of parts) {
    if (typeof part === 'string') {
      if (part === '') continue
      content += (content === '' || isBehindImage ? '' : separator) + part
    } else media.push({ ...part, at: content.length })
    isBehindImage = typeof part !== 'string'
  }
  return { content, ...(media.length > 0 && { media }) }
}

/** The same behind a text. */
export function behind(text: string, { content, media }: MessageContent): MessageContent {
  const moved = media?.map((image) => ({ ...image, at: image.at + text.length }))
  return { content: text + content, ...defined({ media: moved }) }
}

/** A tool's result says which call it answers by its name or by its id; templates show the name. */
export function withNames(messages: readonly ChatMessage[]): ChatMessage[] {
  const names = new Map<string | undefined, string>()
  return messages.map((message) => {
    for (const { id, function: called } of message.tool_calls ?? []) names.set(id, called.name)
    const { tool_call_id: id } = message
    const name = message.name ?? (id === undefined ? undefined : names.get(id))
    return name === undefined ? message : { ...message, name }
  })
}

function partOf(part: unknown, field: string): ContentPart {
  if (typeof part === 'string') return part
  const {
    type,
    refusal,
    text = refusal,
    image_url: image,
    audio_url: sound,
    input_audio: given = image ?? sound,
    detail,
  }: JsonObject = isObject(part) ? part : {}
  if (typeof text === 'string' && isTextType(type)) return text
  const media = mediaTypes.get(type)
  if (media !== undefined) {
    const [file, asked, at] = isObject(given)
      ? [given['data'] ?? given['url'], given['detail'], `${field}.${String(type)}`]
      : [given, detail, field]
    return { ...filePart(media, file, field), ...detailOf(asked, at) }
  }
  if (typeof type === 'string' && !isTextType(type)) {
    throw noMedia(field, type.replace(/_url$|^input_/g, ''))
  }
  throw expectedField(field, '{"type": "text", "text": "…"}')
}

const texts = new Set<unknown>(['text', 'input_text', 'output_text', 'reasoning_text', 'refusal'])
const isTextType = (type: unknown): boolean => texts.has(type)

const mediaTypes: ReadonlyMap<unknown, MediaType> = new Map([
  ['image_url', 'image'],
  ['input_image', 'image'],
  ['input_audio', 'audio'],
  ['audio_url', 'audio'],
])

const details = ['auto', 'low', 'high', 'original']

function detailOf(detail: unknown, field: string): Pick<PromptMedia, 'detail'> {
  if (detail === 'low') return { detail }
  if (detail === undefined || detail === null || details.includes(detail as string)) return {}
  throw expectedField(`${field}.detail`, `one of ${details.join(', ')}`)
}

/** A file as a part: in base64, as a data URL, or as a URL. */
export function filePart(type: MediaType, given: unknown, field: string): Omit<PromptMedia, 'at'> {
  const file = typeof given === 'string' ? given : ''
  const [, data = file] = /^data:[^,]{0,100}; ?base64,(.*)$/is.exec(file) ?? []
  return { type, data, field }
}

/**
 * The messages as the model can be shown them. A file that it cannot, or that cannot be read, is refused where somebody
 * asks about it. In a tool's result, which nobody could foresee, and in a message that the conversation went on behind,
 * a text stands for it: refused there, it would end a conversation that its client keeps whole.
 *
 * @throws as {@link checkMedia}
 */
export function shownMessages(
  messages: readonly ChatMessage[],
  model: Sight,
): readonly ChatMessage[] {
  if (!messages.some(({ media }) => media !== undefined)) return messages
  const last = messages.findLastIndex(({ role }) => role !== 'system')
  return messages.map((message, index) => {
    const { media, content, ...others } = message
    if (media === undefined) return message
    const mayLack = message.role === 'tool' || index < last
    let from = 0
    const parts = media.flatMap((file) => {
      const before = content.slice(from, file.at)
      from = file.at
      const otherwise = leftOut(file.type)
      if (mayLack && !isShown(file, model)) return [before, otherwise]
      checkMedia([file], model)
      return [before, mayLack ? { ...file, otherwise } : file]
    })
    return { ...others, ...joined([...parts, content.slice(from)], '\n') }
  })
}

/** What a model is shown. */
type Sight = Pick<ModelInfo, 'images' | 'audio'>

const isShown = ({ type }: PromptMedia, { images = false, audio = false }: Sight): boolean =>
  type === 'image' ? images : audio

/** What stands for a file that the model cannot be shown. */
export const leftOut = (type: string): string => `[${type} left out: the model cannot be shown it]`

/**
 * Makes sure that the model knows what such files are, and that they are in the request or have a URL.
 *
 * @throws `unsupported` where the model does not, `invalid_request` for what is no base64
 */
export function checkMedia(files: readonly PromptMedia[], model: Sight): void {
  for (const file of files) {
    const { type, data, field = 'messages' } = file
    if (!isShown(file, model)) throw noMedia(field, type)
    if (isUrl(data)) continue
    // no pattern of several parts: one that ends in $ takes quadratic time where there are many spaces
    const digits = data.trimEnd().replace(/={1,2}$/, '')
    if (digits !== '' && !/[^A-Za-z0-9+/\s]/.test(digits)) continue
    const example = type === 'image' ? 'image/png' : 'audio/wav'
    throw expectedField(field, `a file in base64 (data:${example};base64,…), or an http(s) URL`)
  }
}
