import {
  CllmError,
  type EngineClient,
  type EngineInfo,
  type Prompt,
  type TokenId,
} from '@cllm/core'
import { embedAll } from '../../request/embeddings.js'

type Pair = readonly [query: string, document: string]

/** How well two texts fit. */
export interface PairScore {
  /** The higher the better; its range is the model's. */
  readonly score: number
  readonly tokens: number
}

/**
 * How well each pair of texts fits, as a model says that was trained for it.
 *
 * @throws `not_implemented` for any other model
 */
export async function scorePairs(
  client: EngineClient,
  pairs: readonly Pair[],
  signal: AbortSignal,
): Promise<PairScore[]> {
  const { model } = await client.info()
  if (model.details?.['pooling'] !== 'rank') {
    throw new CllmError(
      'not_implemented',
      `The model ${model.id} does not compare texts: reranking needs one that was trained for it, ` +
        'such as bge-reranker-v2-m3 or qwen3-reranker, whose GGUF has the pooling type rank',
    )
  }
  const promptOf = pairPrompts(client, model)
  const prompts = pairs.map((pair) => async () => await promptOf(pair))
  const made = await embedAll(client, prompts, signal)
  return made.map(({ vector, promptTokens }) => ({ score: vector[0] ?? 0, tokens: promptTokens }))
}

/** Makes one prompt of both texts, as llama.cpp puts them together. A query of many pairs is tokenized once. */
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
      const text = template
        .split(/(\{query\}|\{document\})/)
        .map((part) => (part === '{query}' ? query : part === '{document}' ? document : part))
        .join('')
      return { tokens: await client.tokenize(text, { addBos: false }) }
    }
    const begin = begins.get(query) ?? beginWith(query)
    begins.set(query, begin)
    const [first, second] = await Promise.all([begin, encode(document)])
    return { tokens: [...first, ...second, ...after] }
  }
}

const idsIn = (text: unknown): readonly TokenId[] =>
  typeof text === 'string' && text !== '' ? text.split(' ').map(Number) : []
