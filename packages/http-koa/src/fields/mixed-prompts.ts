import type { EngineClient, ModelInfo, Prompt, TokenId } from '@cllm/core'
import { z } from 'zod'
import { checkMedia, filePart } from '../chat/message-content.js'
import { isObject } from './fields.js'
import { expectedField, noMedia } from '../request/refusals.js'

/** A part of a prompt: a text, a token, or llama-server's object with a text, which may have files if it is the whole prompt. */
export type PromptPart = string | number | MediaText

/** A text, and the files whose places are its {@link mediaMarker}s. */
interface MediaText {
  readonly prompt_string: string
  readonly multimodal_data?: unknown
}
/** One prompt: a text, tokens, or both mixed. */
export type MixedPrompt = PromptPart | readonly PromptPart[]

const isToken = (value: unknown): value is number => Number.isInteger(value) && Number(value) >= 0

const isText = (value: unknown): boolean =>
  typeof value === 'string' || (isObject(value) && typeof value['prompt_string'] === 'string')

const isPart = (value: unknown): boolean => isText(value) || isToken(value)

/** Whether a list is one prompt and not several: it has tokens among its elements. */
const isMixed = (value: unknown): value is readonly PromptPart[] =>
  Array.isArray(value) && value.some(isToken) && value.every(isPart)

const isPrompt = (value: unknown): boolean => isText(value) || isMixed(value)

/** Prompts as llama-server takes them: a text, tokens, both mixed, or a list of up to `most` of these. */
export const mixedPrompts = (most: number) =>
  z
    .custom<MixedPrompt | readonly MixedPrompt[]>(
      (value) =>
        isPrompt(value) ||
        (Array.isArray(value) && value.length > 0 && value.length <= most && value.every(isPrompt)),
      `a string, token ids, both mixed, or up to ${most} of these`,
    )
    .meta({ anyOf: [{ type: 'string' }, { type: 'array' }, { type: 'object' }] })

/** Whether the field has several prompts, so that the answer is a list. */
export const areSeveral = (field: MixedPrompt | readonly MixedPrompt[]): boolean =>
  Array.isArray(field) && !isMixed(field)

/** Marks the place of a file in a text with files; in other texts it has no meaning. */
export const mediaMarker = '<__media__>'

/**
 * The prompts one by one.
 *
 * @throws `unsupported` for images and sounds that the model does not take, `invalid_request` if the numbers of files and
 *   markers differ
 */
export async function readPrompts(
  client: EngineClient,
  field: MixedPrompt | readonly MixedPrompt[],
): Promise<Prompt[]> {
  const prompts = (areSeveral(field) ? field : [field]) as readonly MixedPrompt[]
  return await Promise.all(prompts.map((prompt) => readPrompt(client, prompt)))
}

async function readPrompt(client: EngineClient, prompt: MixedPrompt): Promise<Prompt> {
  if (!Array.isArray(prompt)) {
    const part = prompt as PromptPart
    if (hasFiles(part)) return withFiles(part, (await client.info()).model)
    return { text: textOf(part) }
  }
  const parts = prompt as readonly PromptPart[]
  if (parts.every(isToken)) return { tokens: parts }
  const tokens: TokenId[] = []
  for (const [index, part] of parts.entries()) {
    if (hasFiles(part)) throw expectedField('prompt', 'files beside a text alone, not among tokens')
    if (isToken(part)) tokens.push(part)
    // only a text at the very beginning gets the BOS token
    else tokens.push(...(await client.tokenize(textOf(part), { addBos: index === 0 })))
  }
  return { tokens }
}

const textOf = (part: PromptPart): string =>
  typeof part === 'object' ? part.prompt_string : String(part)

const hasFiles = (part: PromptPart): part is MediaText =>
  typeof part === 'object' && part.multimodal_data !== undefined

function withFiles({ prompt_string: marked, multimodal_data: files }: MediaText, model: ModelInfo) {
  const field = 'prompt.multimodal_data'
  if (!Array.isArray(files)) throw expectedField(field, 'an array of files in base64')
  if (model.images !== true && model.audio !== true) throw noMedia(field, 'image')
  const texts = marked.split(mediaMarker)
  if (texts.length !== files.length + 1) {
    const count = texts.length - 1
    const expected = `as many files as the text has ${mediaMarker}: ${count}, got ${files.length}`
    throw expectedField(field, expected)
  }
  let at = 0
  const media = files.map((file, nth) => {
    at += texts[nth]!.length
    return { ...filePart(isSound(file) ? 'audio' : 'image', file, `${field}.${nth}`), at }
  })
  checkMedia(media, model)
  return { text: texts.join(''), ...(media.length > 0 && { media }) }
}

/** Whether a file in base64 begins as WAV, MP3 or FLAC files do. */
function isSound(file: unknown): boolean {
  const head = Buffer.from(String(file).slice(0, 16), 'base64')
  const begins = head.toString('latin1')
  const isFrame = head[0] === 0xff && ((head[1] ?? 0) & 0xe0) === 0xe0
  return isFrame || /^(ID3|fLaC|RIFF.{4}WAVE)/s.test(begins)
}
