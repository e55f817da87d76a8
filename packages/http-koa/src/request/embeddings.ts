import type { Embedding, EngineClient, Prompt } from '@cllm/core'
import { promptsField } from '../fields/prompts.js'
import { unsupported } from './unsupported.js'

/** The inputs to embed: up to 2,048, as OpenAI takes. */
export const embeddingInput = promptsField(2048, { emptyTexts: false })

/**
 * The embeddings of several inputs, computed one after the other until the signal fires.
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
  const embeddings: Embedding[] = []
  for (const input of inputs) {
    embeddings.push(await client.embed(input, { signal }))
  }
  return embeddings
}

/** Tokens of all inputs together. */
export const countTokens = (embeddings: readonly Embedding[]): number =>
  embeddings.reduce((sum, { promptTokens }) => sum + promptTokens, 0)
