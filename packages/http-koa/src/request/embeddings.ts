import { CllmError, type Embedding, type EngineClient, type Prompt } from '@cllm/core'
import { unsupported } from './refusals.js'
import { sum } from './usage.js'

/** A prompt, or what makes it when its turn has come. */
export type EmbeddingInput = Prompt | (() => Promise<Prompt>)

/** Inputs of one body that the engine has at a time: enough for a pass. */
const inputsAtOnce = 16

/**
 * The embeddings of several inputs, until the signal fires. Few at once, so that another client's
 * inputs do not wait for all of them.
 *
 * @param options - `eachToken`: whether the caller knows what to do with a vector for each token
 * @throws `unsupported` when the backend has no embeddings, or such as the caller does not know
 */
export async function embedAll(
  client: EngineClient,
  inputs: readonly EmbeddingInput[],
  signal: AbortSignal,
  { eachToken = false }: { readonly eachToken?: boolean } = {},
): Promise<Embedding[]> {
  const { capabilities } = await client.info()
  if (!capabilities.embeddings) throw unsupported('input', 'this backend has no embeddings')
  if (!eachToken && (await isUnpooled(client))) {
    throw unsupported('input', 'with --pooling none only /embedding and /embeddings give vectors')
  }
  const failed = new AbortController()
  const embeddings: Embedding[] = []
  const waiting = inputs.entries()
  // Each takes the next input when it has its embedding.
  const embedNext = async (): Promise<void> => {
    const either = AbortSignal.any([signal, failed.signal])
    for (const [index, input] of waiting) {
      const prompt = orBlank(typeof input === 'function' ? await input() : input)
      embeddings[index] = await client.embed(prompt, { signal: either }).catch(tellSize)
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

/** Says of an input that is too long what llama-server says. */
function tellSize(error: unknown): never {
  if (!(error instanceof CllmError) || error.code !== 'prompt_too_long') throw error
  if (error.message.includes('too large')) throw error
  const message = `input: it is too large to process: ${error.message}`
  throw new CllmError(error.code, message, { details: error.details, cause: error })
}

/** Whether an input has one vector for each of its tokens (`--pooling none`). */
export async function isUnpooled(client: EngineClient): Promise<boolean> {
  const { model } = await client.info()
  return model.details?.pooling === 'none'
}

/**
 * The first numbers of a vector, of length 1 again: models that were trained for it (Matryoshka) keep most
 * of their meaning there.
 *
 * @param size - numbers; undefined, or more than there are: all
 */
export function shortened(vector: readonly number[], size: number | undefined): readonly number[] {
  if (size === undefined || size >= vector.length) return vector
  const kept = vector.slice(0, size)
  const length = Math.hypot(...kept)
  return length === 0 ? kept : kept.map((value) => value / length)
}

/** Nothing at all has no embedding: an empty text counts as a blank. */
const orBlank = (input: Prompt): Prompt =>
  'text' in input && input.text === '' ? { text: ' ' } : input

/** Tokens of all inputs together. */
export const countTokens = (embeddings: readonly Embedding[]): number =>
  sum(embeddings.map(({ promptTokens }) => promptTokens))
