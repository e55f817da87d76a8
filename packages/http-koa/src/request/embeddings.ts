import type { Embedding, EngineClient, Prompt } from '@cllm/core'
import { promptsField } from './prompts.js'
import { unsupported } from './refuse-unsupported.js'

/** What is to be embedded: as many inputs as OpenAI takes. */
export const embeddingInput = promptsField(2048, { emptyTexts: false })

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
    embeddings.push(await client.embed(input, { signal }))
  }
  return embeddings
}

/** Tokens of all inputs together. */
export const countTokens = (embeddings: readonly Embedding[]): number =>
  embeddings.reduce((sum, { promptTokens }) => sum + promptTokens, 0)
