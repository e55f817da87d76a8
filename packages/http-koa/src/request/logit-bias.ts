import type { EngineClient } from '@cllm/core'
import { z } from 'zod'
import { expectedField } from './refusals.js'

/** The most entries of one request. */
const most = 1024
/** A bias with which a token is never drawn, and which JSON can express. */
const never = -1e9

type Entry = readonly [token: string | number, bias: number | false]

/**
 * Values to add to the logits of tokens: an object by token id, or pairs. As with llama-server, a token may be a text,
 * which means each of its tokens, and false means that the token is never drawn.
 */
export const logitBiasField = z
  .custom<object>((value) => {
    const entries = entriesIn(value)
    return entries !== undefined && entries.length <= most && entries.every(isEntry)
  }, `an object or pairs of up to ${most} token ids or texts with numbers from -100 to 100`)
  .meta({
    anyOf: [
      { type: 'object', additionalProperties: { type: 'number', minimum: -100, maximum: 100 } },
      { type: 'array', items: { type: 'array' } },
    ],
  })

function entriesIn(value: unknown): readonly (readonly unknown[])[] | undefined {
  if (Array.isArray(value)) return value.every(Array.isArray) ? (value as unknown[][]) : undefined
  return typeof value === 'object' && value !== null ? Object.entries(value) : undefined
}

function isEntry(entry: readonly unknown[]): boolean {
  const [token, bias] = entry
  const isToken = typeof token === 'string' || (Number.isInteger(token) && Number(token) >= 0)
  const isBias = bias === false || (typeof bias === 'number' && Math.abs(bias) <= 100)
  return entry.length === 2 && isToken && isBias
}

/** The biases by token id; a text means each of its tokens. */
export async function readLogitBias(client: EngineClient, field: z.output<typeof logitBiasField>) {
  const biases: Record<string, number> = {}
  const isList = Array.isArray(field)
  for (const [token, bias] of (isList ? field : Object.entries(field)) as Entry[]) {
    const value = bias === false ? never : bias
    // in pairs, ids are numbers, and a text of digits is a text like any other
    if (typeof token === 'number' || (!isList && /^\d{1,10}$/.test(token))) biases[token] = value
    else for (const id of await tokensOf(client, token)) biases[id] = value
  }
  return biases
}

async function tokensOf(client: EngineClient, text: string): Promise<readonly number[]> {
  if (text.length <= 1000) return await client.tokenize(text, { addBos: false })
  throw expectedField('logit_bias', 'a text of at most 1000 characters')
}
