import type { Embedding, EngineClient, Prompt } from '@cllm/core'
import { unsupported } from './unsupported.js'

/** Inputs of one body that the engine has at a time: enough for a pass. */
const inputsAtOnce = 16

/**
 * The embeddings of several inputs, until the signal fires. Few at once, so that another client's
 * inputs do not wait for all of them.
 *
 * @throws `unsupported` when the backend has no embeddings
 */
export async function embedAll(
  client: EngineClient,
  inputs: readonly Prompt[],
  signal: AbortSignal,
): Promise<Embedding[]> {
  const { capabilities } = await client.info()
  if (!capabilities.embeddings) throw unsupported('input', 'this backend has no embeddings')
  const given = inputs.map(orBlank)
  const failed = new AbortController()
  const embeddings: Embedding[] = []
  const waiting = given.entries()
  // Each takes the next input when it has its embedding.
  const embedNext = async (): Promise<void> => {
    const either = AbortSignal.any([signal, failed.signal])
    for (const [index, input] of waiting) {
      embeddings[index] = await client.embed(input, { signal: either })
    }
  }
  const all = Array.from({ length: Math.min(inputsAtOnce, inputs.length) }, embedNext)
  try {
    await Promise.all(all)
  } catch (error) {
    failed.abort()
    await Promise.allSettled(all)
    throw error
  }
  return embeddings
}

/** Nothing at all has no embedding: an empty text counts as a blank. */
const orBlank = (input: Prompt): Prompt =>
  'text' in input && input.text === '' ? { text: ' ' } : input

/** Tokens of all inputs together. */
export const countTokens = (embeddings: readonly Embedding[]): number =>
  embeddings.reduce((sum, { promptTokens }) => sum + promptTokens, 0)
