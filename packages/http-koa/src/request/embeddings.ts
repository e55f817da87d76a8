import type { Embedding, EngineClient, Prompt } from '@cllm/core'
import { z } from 'zod'
import { isTokenList } from './fields.js'
import { unsupported } from './refuse-unsupported.js'

/** One input or several: texts or token ids. */
export type EmbeddingInput =
  | string
  | readonly string[]
  | readonly number[]
  | readonly (readonly number[])[]

/** Most inputs of one request, as with OpenAI. */
const mostInputs = 2048

const isOne = (value: unknown): boolean =>
  typeof value === 'string' ? value !== '' : isTokenList(value) && value.length > 0

/** What is to be embedded. */
export const embeddingInput = z
  .custom<EmbeddingInput>(
    (value) =>
      isOne(value) ||
      (Array.isArray(value) &&
        value.length > 0 &&
        value.length <= mostInputs &&
        value.every(isOne)),
    `a text, token ids, or up to ${mostInputs} of them, none of them empty`,
  )
  .meta({
    anyOf: [
      { type: 'string' },
      { type: 'array', items: { type: 'string' } },
      { type: 'array', items: { type: 'integer' } },
      { type: 'array', items: { type: 'array', items: { type: 'integer' } } },
    ],
  })

/** The inputs one by one. */
export function toInputs(input: EmbeddingInput): Prompt[] {
  if (typeof input === 'string') return [{ text: input }]
  if (isTokenList(input)) return [{ tokens: input }]
  return (input as readonly (string | readonly number[])[]).map((one) =>
    typeof one === 'string' ? { text: one } : { tokens: one },
  )
}

/**
 * The embeddings of several inputs, one after the other, until the signal fires: nobody waits for
 * the rest then. Throws `unsupported` where the backend has none.
 */
export async function embedAll(
  client: EngineClient,
  inputs: readonly Prompt[],
  signal: AbortSignal,
): Promise<Embedding[]> {
  const { capabilities } = await client.info()
  if (!capabilities.embeddings) throw unsupported('input', 'this backend has no embeddings')
  const embeddings: Embedding[] = []
  for (const input of inputs) {
    if (signal.aborted) break
    embeddings.push(await client.embed(input))
  }
  return embeddings
}

/** Tokens of all inputs together. */
export const countTokens = (embeddings: readonly Embedding[]): number =>
  embeddings.reduce((sum, { promptTokens }) => sum + promptTokens, 0)
