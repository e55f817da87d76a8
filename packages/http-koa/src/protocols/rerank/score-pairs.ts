import {
  CllmError,
  type EngineClient,
  type EngineInfo,
  type Prompt,
  type TokenId,
} from '@cllm/core'
import { embedAll } from '../../request/embeddings.js'

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
  pairs: readonly (readonly [query: string, document: string])[],
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
  const prompts = await Promise.all(pairs.map((pair) => promptOf(client, model, pair)))
  const made = await embedAll(client, prompts, signal)
  return made.map(({ vector, promptTokens }) => ({ score: vector[0] ?? 0, tokens: promptTokens }))
}

/** Both texts in one prompt, as llama.cpp puts them together. */
async function promptOf(
  client: EngineClient,
  { details = {} }: EngineInfo['model'],
  [query, document]: readonly [string, string],
): Promise<Prompt> {
  const template = details['pairTemplate']
  if (typeof template === 'string') {
    const text = template
      .split(/(\{query\}|\{document\})/)
      .map((part) => (part === '{query}' ? query : part === '{document}' ? document : part))
      .join('')
    return { tokens: await client.tokenize(text, { addBos: false }) }
  }
  const encode = (text: string) => client.tokenize(text, { addBos: false, special: false })
  const [start, first, second] = await Promise.all([
    client.tokenize(''),
    encode(query),
    encode(document),
  ])
  const between = idsIn(details['pairBetween'])
  return { tokens: [...start, ...first, ...between, ...second, ...idsIn(details['pairAfter'])] }
}

const idsIn = (text: unknown): readonly TokenId[] =>
  typeof text === 'string' && text !== '' ? text.split(' ').map(Number) : []
