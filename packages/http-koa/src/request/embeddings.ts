import type { Embedding, EngineClient, EngineInfo, Prompt, TokenId } from '@cllm/core'
import { CllmError, entryOf } from '@cllm/core'
import { unsupported, expectedField, missingField } from './refusals.js'
import { allOrNone } from './generation.js'
import { sum } from './usage.js'
import { requestId } from '@cllm/host'
import { z } from 'zod'
import { boolean, integer, isObject, largest, name, text, texts } from '../fields/fields.js'
import type { Answer, CallOf } from '../routes/route.js'

/** A prompt, or a function that makes it when it is next. */
export type EmbeddingInput = Prompt | (() => Promise<Prompt>)

/** The most inputs of one body that are sent to the engine at a time: enough for a pass. */
const inputsAtOnce = 16

/**
 * The embeddings of several inputs, until the signal fires. Only a few are computed at once, so that another client's
 * inputs do not wait for all of them.
 *
 * @param options - `eachToken`: whether the caller can handle one vector for each token; `dimensions`: the least length
 *   of the vectors, which is only known once there is one
 * @throws `unsupported` when the backend has no embeddings, or has them in a form that the caller cannot handle
 */
export async function embedAll(
  client: EngineClient,
  inputs: readonly EmbeddingInput[],
  signal: AbortSignal,
  { eachToken = false, dimensions = 0 }: { eachToken?: boolean; dimensions?: number } = {},
): Promise<Embedding[]> {
  const { capabilities } = await client.info()
  if (!capabilities.embeddings) throw unsupported('input', 'this backend has no embeddings')
  if (!eachToken && (await isUnpooled(client))) {
    throw unsupported('input', 'with --pooling none only /embedding and /embeddings give vectors')
  }
  const failed = new AbortController()
  const embeddings: Embedding[] = []
  const waiting = inputs.entries()
  // Each of these loops takes the next input when it has the embedding of the last one.
  const embedNext = async (): Promise<void> => {
    const either = AbortSignal.any([signal, failed.signal])
    for (const [index, input] of waiting) {
      const prompt = orBlank(typeof input === 'function' ? await input() : input)
      const made = await client.embed(prompt, { signal: either }).catch(tellSize)
      if (made.vector.length < dimensions) {
        throw expectedField('dimensions', `at most ${made.vector.length}, which this model has`)
      }
      embeddings[index] = made
    }
  }
  const loops = Math.min(inputsAtOnce, inputs.length)
  await allOrNone(Array.from({ length: loops }, embedNext), failed)
  return embeddings
}

/** Words the error of an input that is too long as llama-server does. */
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
 * The first numbers of a vector, normalized to length 1 again: models trained for that (Matryoshka) keep most of the
 * meaning there.
 *
 * @param size - how many numbers; undefined, or more than there are: all
 */
export function shortened(vector: readonly number[], size: number | undefined): readonly number[] {
  if (size === undefined || size >= vector.length) return vector
  const kept = vector.slice(0, size)
  const length = Math.hypot(...kept)
  return length === 0 ? kept : kept.map((value) => value / length)
}

/** An empty text has no embedding, so it counts as a space. */
const orBlank = (input: Prompt): Prompt =>
  'text' in input && input.text === '' ? { text: ' ' } : input

/** The number of tokens of all inputs. */
export const countTokens = (embeddings: readonly Embedding[]): number =>
  sum(embeddings.map(({ promptTokens }) => promptTokens))

type Pair = readonly [query: string, document: string]

/** The usage of embeddings, in OpenAI's form. */
export function usageOfInputs(made: readonly Embedding[]) {
  const tokens = countTokens(made)
  return { prompt_tokens: tokens, total_tokens: tokens }
}

/**
 * How well each pair of texts fits, by a reranking model: the single number of each vector. Higher is better; the range
 * depends on the model.
 *
 * @throws `not_implemented` for any other model
 */
export async function scorePairs(
  client: EngineClient,
  pairs: readonly Pair[],
  signal: AbortSignal,
): Promise<Embedding[]> {
  const { model } = await client.info()
  if (model.details?.pooling !== 'rank') {
    throw new CllmError(
      'not_implemented',
      `The model ${model.id} does not compare texts: reranking needs one that was trained for it, ` +
        'such as bge-reranker-v2-m3 or qwen3-reranker, whose GGUF has the pooling type rank',
    )
  }
  const promptOf = pairPrompts(client, model)
  const prompts = pairs.map((pair) => async () => await promptOf(pair))
  return await embedAll(client, prompts, signal)
}

const scoreOf = ({ vector }: Embedding): number => vector[0] ?? 0

/** Joins both texts to one prompt, as llama.cpp does. A query that is in many pairs is tokenized once. */
function pairPrompts(client: EngineClient, { details = {} }: EngineInfo['model']) {
  const template = details['pairTemplate']
  const [between, after] = [idsIn(details['pairBetween']), idsIn(details['pairAfter'])]
  const begins = new Map<string, Promise<readonly TokenId[]>>()
  const encode = async (text: string) =>
    await client.tokenize(text, { addBos: false, special: false })
  const beginWith = async (query: string): Promise<readonly TokenId[]> => {
    const [start, first] = await Promise.all([client.tokenize(''), encode(query)])
    return [...start, ...first, ...between]
  }
  return async ([query, document]: Pair): Promise<Prompt> => {
    if (typeof template === 'string') {
      const text = template.replaceAll(/\{query\}|\{document\}/g, (place) =>
        place === '{query}' ? query : document,
      )
      return { tokens: await client.tokenize(text, { addBos: false }) }
    }
    const begin = entryOf(begins, query, () => beginWith(query))
    const [first, second] = await Promise.all([begin, encode(document)])
    return { tokens: [...first, ...second, ...after] }
  }
}

const idsIn = (text: unknown): readonly TokenId[] =>
  typeof text === 'string' && text !== '' ? text.split(' ').map(Number) : []

/** The most documents of one body. */
const most = 2048

/** Texts, or objects with a text as Cohere and Jina take them. */
const documentsField = z
  .custom<readonly (string | { readonly text: string })[]>(
    (value) =>
      Array.isArray(value) && value.length > 0 && value.length <= most && value.every(isDocument),
    `an array of 1 to ${most} texts`,
  )
  .meta({ type: 'array', items: { type: 'string' } })

const isDocument = (value: unknown): boolean =>
  typeof value === 'string' || (isObject(value) && typeof value['text'] === 'string')

const textOf = (document: string | { readonly text: string }): string =>
  typeof document === 'string' ? document : document.text

/** The body of `POST /v1/rerank`: Jina's and Cohere's `documents`, or TEI's `texts`. */
export const rerankSchema = z.object({
  model: name.optional(),
  query: text,
  documents: documentsField.optional(),
  texts: documentsField.optional(),
  top_n: integer(1, largest).optional(),
  return_documents: boolean.optional(),
  return_text: boolean.optional(),
})

/** `POST /v1/rerank`: sorts documents by how well they fit the query, the best first. */
export async function rerank(call: CallOf<typeof rerankSchema>): Promise<Answer> {
  const { fields } = call
  const documents = (fields.documents ?? fields.texts)?.map(textOf)
  if (documents === undefined) throw missingField('documents')
  const { model, client } = call.open(fields.model)
  const pairs = documents.map((document) => [fields.query, document] as const)
  const scored = await scorePairs(client, pairs, call.signal)
  const ranked = scored
    .map((one, index) => ({ index, score: scoreOf(one) }))
    .toSorted((a, b) => b.score - a.score)
    .slice(0, fields.top_n)
  if (fields.texts !== undefined) {
    return ranked.map(({ index, score }) => ({
      index,
      score,
      ...(fields.return_text === true && { text: documents[index] }),
    }))
  }
  return {
    id: `rerank-${requestId(call.random)}`,
    model,
    object: 'list',
    usage: usageOfInputs(scored),
    results: ranked.map(({ index, score }) => ({
      index,
      relevance_score: score,
      ...(fields.return_documents === true && { document: { text: documents[index] } }),
    })),
  }
}

const oneOrMany = texts(`a string or up to ${most} strings`, 1, most)

/** The body of `POST /v1/score`, as vLLM takes it. */
export const scoreSchema = z.object({
  model: name.optional(),
  text_1: oneOrMany,
  text_2: oneOrMany,
})

/** `POST /v1/score`: how well texts fit each other, one text with many or in pairs. */
export async function score(call: CallOf<typeof scoreSchema>): Promise<Answer> {
  const { fields } = call
  const { model, client } = call.open(fields.model)
  const [first, second] = [[fields.text_1].flat(), [fields.text_2].flat()]
  if (first.length !== second.length && first.length !== 1) {
    throw expectedField('text_1', 'one text, or as many as in text_2')
  }
  const pairs = second.map((other, index) => [first[index] ?? first[0]!, other] as const)
  const scored = await scorePairs(client, pairs, call.signal)
  return {
    object: 'list',
    model,
    data: scored.map((one, index) => ({ index, object: 'score', score: scoreOf(one) })),
    usage: usageOfInputs(scored),
  }
}
