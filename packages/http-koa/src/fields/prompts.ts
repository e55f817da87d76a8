import type { Prompt } from '@cllm/core'
import { z } from 'zod'
import { isTokenList } from './fields.js'

/** One prompt or several: texts or token ids. */
export type ClientPrompts =
  | string
  | readonly string[]
  | readonly number[]
  | readonly (readonly number[])[]

/** A field with 1 to `most` prompts. Empty strings are allowed where a model can start from nothing. */
export const promptsField = (most: number, { emptyTexts }: { readonly emptyTexts: boolean }) => {
  const isPrompt = (value: unknown) =>
    typeof value === 'string' ? emptyTexts || value !== '' : isTokenList(value) && value.length > 0
  const isList = (value: unknown) =>
    Array.isArray(value) && value.length > 0 && value.length <= most && value.every(isPrompt)
  const end = emptyTexts ? '' : ', none of them empty'
  return z
    .custom<ClientPrompts>(
      (value) => isPrompt(value) || isList(value),
      `a string, token ids, or up to ${most} of them${end}`,
    )
    .meta({
      anyOf: [
        { type: 'string' },
        { type: 'array', items: { type: 'string' } },
        { type: 'array', items: { type: 'integer' } },
        { type: 'array', items: { type: 'array', items: { type: 'integer' } } },
      ],
    })
}

/** The prompts one by one. */
export function toPrompts(prompts: ClientPrompts): Prompt[] {
  if (typeof prompts === 'string') return [{ text: prompts }]
  if (isTokenList(prompts)) return [{ tokens: prompts }]
  return (prompts as readonly (string | readonly number[])[]).map((one) =>
    typeof one === 'string' ? { text: one } : { tokens: one },
  )
}
