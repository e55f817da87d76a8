import type { EngineClient, Prompt, TokenId } from '@cllm/core'
import { z } from 'zod'
import { unsupported } from '../request/refusals.js'

/** A part of a prompt: a text, a token, or llama-server's object for a text. */
export type PromptPart = string | number | { readonly prompt_string: string }
/** One prompt: a text, its tokens, or both mixed. */
export type MixedPrompt = PromptPart | readonly PromptPart[]

const isToken = (value: unknown): value is number => Number.isInteger(value) && Number(value) >= 0

const isText = (value: unknown): boolean =>
  typeof value === 'string' ||
  (typeof value === 'object' &&
    value !== null &&
    typeof (value as { prompt_string?: unknown }).prompt_string === 'string')

const isPart = (value: unknown): boolean => isText(value) || isToken(value)

/** Whether a list is one prompt and not several: it holds a token itself. */
const isMixed = (value: unknown): value is readonly PromptPart[] =>
  Array.isArray(value) && value.some(isToken) && value.every(isPart)

const isPrompt = (value: unknown): boolean => isText(value) || isMixed(value)

/** Prompts as llama-server takes them: a text, tokens, both mixed, or up to `most` of these. */
export const mixedPrompts = (most: number) =>
  z
    .custom<MixedPrompt | readonly MixedPrompt[]>(
      (value) =>
        isPrompt(value) ||
        (Array.isArray(value) && value.length > 0 && value.length <= most && value.every(isPrompt)),
      `a string, token ids, both mixed, or up to ${most} of these`,
    )
    .meta({ anyOf: [{ type: 'string' }, { type: 'array' }, { type: 'object' }] })

/** Whether the field holds several prompts, so that a list is answered. */
export const areSeveral = (field: MixedPrompt | readonly MixedPrompt[]): boolean =>
  Array.isArray(field) && !isMixed(field)

/**
 * The prompts one by one.
 *
 * @throws `unsupported` for images
 */
export async function readPrompts(
  client: EngineClient,
  field: MixedPrompt | readonly MixedPrompt[],
): Promise<Prompt[]> {
  const prompts = (areSeveral(field) ? field : [field]) as readonly MixedPrompt[]
  return await Promise.all(prompts.map((prompt) => readPrompt(client, prompt)))
}

async function readPrompt(client: EngineClient, prompt: MixedPrompt): Promise<Prompt> {
  if (!Array.isArray(prompt)) return { text: textOf(prompt as PromptPart) }
  const parts = prompt as readonly PromptPart[]
  if (parts.every(isToken)) return { tokens: parts }
  const tokens: TokenId[] = []
  for (const [index, part] of parts.entries()) {
    if (isToken(part)) tokens.push(part)
    // only a text at the beginning begins the prompt
    else tokens.push(...(await client.tokenize(textOf(part), { addBos: index === 0 })))
  }
  return { tokens }
}

function textOf(part: PromptPart): string {
  if (typeof part === 'string') return part
  if (typeof part === 'object' && !('multimodal_data' in part)) return part.prompt_string
  throw unsupported(
    'prompt',
    'image input is not supported here: chats take images, where the model has a projector',
  )
}
