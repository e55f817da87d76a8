import type { GenerateRequest, Prompt } from '../../contracts/engine/generate-request.js'
import type { Backend } from '../../contracts/model/backend.js'
import type { MediaSpan } from '../../contracts/model/media.js'
import {
  mediaPlace,
  type PromptMedia,
  type TokenId,
  type Tokenizer,
} from '../../contracts/model/tokenizer.js'
import { CllmError } from '../../errors/cllm-error.js'
import { invalidField, unsupported } from './check-request.js'
import { checkLength, type PromptContext } from './resolve-prompt.js'

/** A prompt's tokens, and where vectors stand in place of some of them. */
export interface MixedPrompt {
  /** Without the images. */
  readonly text: string
  readonly tokens: TokenId[]
  readonly media: readonly MediaSpan[]
}

/** What {@link resolveMedia} needs. */
export interface MediaContext extends PromptContext {
  readonly backend: Pick<Backend, 'media'>
}

/** A prompt that may have images. */
export type MediaPrompt = Exclude<Prompt, { readonly tokens: unknown }>

/** Whether there are images in a prompt. */
export function hasMedia(prompt: Prompt): prompt is MediaPrompt {
  if (typeof prompt !== 'object' || prompt === null || 'tokens' in prompt) return false
  if ('text' in prompt) return (prompt.media?.length ?? 0) > 0
  const { messages } = prompt
  return Array.isArray(messages) && messages.some((message) => (message?.media?.length ?? 0) > 0)
}

/**
 * Refuses what does not go with images.
 * @throws CllmError `unsupported`
 */
export function checkMixed({ promptLogprobs }: GenerateRequest, shifts: boolean): void {
  if (promptLogprobs !== undefined) {
    throw unsupported('promptLogprobs', 'media', 'it is not known for prompts with images')
  }
  if (shifts) {
    throw unsupported('contextShift', 'media', 'a prompt with images cannot lose a part of it')
  }
}

/**
 * Tokenizes a prompt with images, which are encoded all at once.
 *
 * @param ensureWanted - throws when the prompt does not matter any more
 * @throws CllmError as the encoder does, and `prompt_too_long`
 */
export async function resolveMedia(
  prompt: MediaPrompt,
  context: MediaContext,
  ensureWanted: () => void,
): Promise<MixedPrompt> {
  const { tokenizer, backend } = context
  const encoder = backend.media!
  const files = 'text' in prompt ? (prompt.media ?? []) : prompt.messages.flatMap(filesOf)
  for (const file of files) {
    const isFile = typeof file?.data === 'string' && Number.isInteger(file.at)
    if (!isFile) throw invalidField('prompt.media', 'objects with at and data', file)
  }
  const { text, tokens: places } =
    'text' in prompt
      ? { text: prompt.text, tokens: withPlaces(prompt.text, files, tokenizer) }
      : tokenizer.renderChat(prompt.messages, prompt.template)
  const shown = places.filter((token) => token === mediaPlace).length
  if (shown !== files.length) {
    const message = `messages: the model's chat template shows ${shown} of ${files.length} images`
    throw new CllmError('invalid_request', message, { details: { field: 'messages' } })
  }
  const encoded = await Promise.all(
    files.map(({ data, field }) =>
      encoder.encode(data).catch((error: unknown) => {
        throw field === undefined ? error : withField(field, error)
      }),
    ),
  )
  ensureWanted()
  const tokens: TokenId[] = []
  const media: MediaSpan[] = []
  for (const token of places) {
    if (token !== mediaPlace) {
      tokens.push(token)
      continue
    }
    const image = encoded.shift()!
    for (const span of image.spans) media.push({ ...span, start: tokens.length + span.start })
    for (const each of image.tokens) tokens.push(each)
  }
  if (mediaEnd(media) === tokens.length) {
    throw invalidField('prompt', 'a text behind the last image', 'an image')
  }
  return { text, tokens: checkLength(tokens, context), media }
}

function withField(field: string, cause: unknown): CllmError {
  const { code, message } = CllmError.from(cause)
  return new CllmError(code, `${field}: ${message}`, { cause, details: { field } })
}

const filesOf = ({ media }: { readonly media?: readonly PromptMedia[] }) => media ?? []

function withPlaces(text: string, files: readonly PromptMedia[], tokenizer: Tokenizer): TokenId[] {
  const tokens = tokenizer.encode('')
  let from = 0
  for (const { at } of files) {
    tokens.push(...tokenizer.encode(text.slice(from, at), { addBos: false }), mediaPlace)
    from = at
  }
  return [...tokens, ...tokenizer.encode(text.slice(from), { addBos: false })]
}

/** Behind the last vector. */
export function mediaEnd(media: readonly MediaSpan[] = []): number {
  const last = media.at(-1)
  return last === undefined ? 0 : last.start + last.length
}

/** The vectors of a sequence's tokens from `first` to `end`, counted from `first`; no property where there are none. */
export function mediaWithin(
  media: readonly MediaSpan[],
  first: number,
  end: number,
): { readonly media?: readonly MediaSpan[] } {
  const within: MediaSpan[] = []
  for (const { start, length, vectors } of media) {
    const [from, to] = [Math.max(first, start), Math.min(end, start + length)]
    if (from >= to) continue
    const width = vectors.length / length
    const part = vectors.subarray((from - start) * width, (to - start) * width)
    within.push({ start: from - first, length: to - from, vectors: part })
  }
  return within.length === 0 ? {} : { media: within }
}
