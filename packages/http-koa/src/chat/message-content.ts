import { type ChatMessage, defined, type PromptMedia } from '@cllm/core'
import { isObject } from '../fields/fields.js'
import { expectedField, noImages } from '../request/refusals.js'

/** A part of a content: a text, or an image in base64. */
export type ContentPart = string | Pick<PromptMedia, 'data' | 'field'>

/** What a message says. */
export type MessageContent = Pick<ChatMessage, 'content' | 'media'>

/**
 * A content's parts as one: each text on a line of its own as in llama-server, since a part is a file or a question, not
 * the middle of a word; those of an answer are paragraphs. Around an image there is no line of its own.
 *
 * @throws `unsupported` for a sound and other content that is neither text nor image
 */
export function contentOf(
  content: string | readonly unknown[],
  field: string,
  role?: string,
): MessageContent {
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

function partOf(part: unknown, field: string): ContentPart {
  if (typeof part === 'string') return part
  const {
    type,
    refusal,
    text = refusal,
    image_url: image,
  }: Readonly<Record<string, unknown>> = isObject(part) ? part : {}
  if (typeof text === 'string' && isTextType(type)) return text
  if (type === 'image_url' || type === 'input_image') {
    return { data: dataOf(isObject(image) ? image['url'] : image), field }
  }
  if (typeof type === 'string' && !isTextType(type)) {
    throw noImages(field, type.replace(/_url$|^input_/g, ''))
  }
  throw expectedField(field, '{"type": "text", "text": "…"}')
}

const isTextType = (type: unknown): boolean =>
  type === 'text' || type === 'input_text' || type === 'output_text' || type === 'refusal'

/** What stands behind `base64,` in a data URL; of another URL, the URL. */
function dataOf(url: unknown): string {
  if (typeof url !== 'string') return ''
  const [, data = url] = /^data:[^,]{0,100};base64,(.*)$/s.exec(url) ?? []
  return data
}

/**
 * Makes sure that the model is shown images, and that they are in the request itself.
 *
 * @throws `unsupported` where the model reads text only, `invalid_request` for what is no base64
 */
export function checkImages(messages: readonly ChatMessage[], sees: boolean): void {
  for (const { media = [] } of messages) {
    for (const { data, field = 'messages' } of media) {
      if (!sees) throw noImages(field)
      // no pattern of several parts: one that ends in $ takes quadratic time where there are many spaces
      const digits = data.trimEnd().replace(/={1,2}$/, '')
      if (digits !== '' && !/[^A-Za-z0-9+/\s]/.test(digits)) continue
      throw expectedField(field, 'an image in base64 (data:image/png;base64,…): no URL is fetched')
    }
  }
}
