import type { ChatMessage, MediaType, ModelInfo, PromptMedia } from '@cllm/core'
import { defined } from '@cllm/core'
import { isUrl } from '../engines/media-urls.js'
import { isObject, type JsonObject } from '../fields/fields.js'
import { expectedField, noMedia } from '../request/refusals.js'

/** A part of a content: a text, an image or a sound. */
export type ContentPart = string | Omit<PromptMedia, 'at'>

/** The content of a message. */
export type MessageContent = Pick<ChatMessage, 'content' | 'media'>

/**
 * Joins the parts of a content: texts are separated by a line break as in llama-server, since a part is a file or a
 * question, not the middle of a word; those of an answer by an empty line. Images are not separated.
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

/** Puts a text before a content. */
export function behind(text: string, { content, media }: MessageContent): MessageContent {
  const moved = media?.map((image) => ({ ...image, at: image.at + text.length }))
  return { content: text + content, ...defined({ media: moved }) }
}

/** Adds the tool's name to results that only have the id of their call, as templates show the name. */
export function withNames(messages: readonly ChatMessage[]): ChatMessage[] {
  const names = new Map<string | undefined, string>()
  return messages.map((message) => {
    for (const { id, function: called } of message.tool_calls ?? []) names.set(id, called.name)
    const { tool_call_id: id } = message
    const name = message.name ?? (message.role === 'tool' ? names.get(id) : undefined)
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
 * The messages without files that the model cannot be shown. Such files are refused in the last message. In a tool's
 * result, and in earlier messages, a text takes their place: an error would make it impossible to continue the
 * conversation, which the client always sends as a whole.
 *
 * @throws the errors of {@link checkMedia}
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

/** The kinds of files that a model can be shown. */
type Sight = Pick<ModelInfo, 'images' | 'audio'>

const isShown = ({ type }: PromptMedia, { images = false, audio = false }: Sight): boolean =>
  type === 'image' ? images : audio

/** The text in place of a file that the model cannot be shown. */
export const leftOut = (type: string): string => `[${type} left out: the model cannot be shown it]`

/**
 * Checks that the model can be shown such files, and that they are in base64 or given by URL.
 *
 * @throws `unsupported` if the model cannot, `invalid_request` for invalid base64
 */
export function checkMedia(files: readonly PromptMedia[], model: Sight): void {
  for (const file of files) {
    const { type, data, field = 'messages' } = file
    if (!isShown(file, model)) throw noMedia(field, type)
    if (isUrl(data)) continue
    // no single pattern: one that ends in $ takes quadratic time for many spaces
    const digits = data.trimEnd().replace(/={1,2}$/, '')
    if (digits !== '' && !/[^A-Za-z0-9+/\s]/.test(digits)) continue
    const example = type === 'image' ? 'image/png' : 'audio/wav'
    throw expectedField(field, `a file in base64 (data:${example};base64,…), or an http(s) URL`)
  }
}
