import { byteAlphabet, entryOf } from '@cllm/core'
import TinyQueue from 'tinyqueue'
import {
  bool,
  type GgufMetadata,
  int32s,
  text,
  texts,
  TokenType,
  uint32,
} from '../format/gguf-types.js'

/** A pair of symbols that is merged into one. */
export type Merge = readonly [left: string, right: string]

/**
 * A pair of neighbouring symbols, how often it occurs, and the words that hold it or held it once.
 */
interface Pair {
  readonly left: number
  readonly right: number
  readonly words: Set<number>
  count: number
}

/** A word as its current symbols. */
interface Word {
  readonly symbols: number[]
  readonly count: number
}

/** A pair with the count it had when it was queued; one that has changed since is stale. */
interface Candidate {
  readonly pair: Pair
  readonly count: number
}

const mostSymbols = 2 ** 21

/**
 * Learns byte-pair merges (Sennrich, Haddow and Birch 2016, https://arxiv.org/abs/1508.07909):
 * repeatedly, the most frequent pair of neighbours within a word becomes a symbol. Only the words
 * with the pair are visited, so the time is proportional to the size of the list.
 * @param words the words, each character a starting symbol, with how often they occur.
 * @param limit the most symbols to make; fewer are made when every word has become one symbol.
 * @returns the merges in the order in which a tokenizer applies them; no two make the same symbol.
 */
export function learnMerges(words: ReadonlyMap<string, number>, limit: number): Merge[] {
  const learner = new MergeLearner(words)
  const made = new Map<string, Merge>()
  while (made.size < limit) {
    const merge = learner.next()
    if (merge === undefined) break
    const symbol = merge.join('')
    if (!made.has(symbol)) made.set(symbol, merge)
  }
  return [...made.values()]
}

class MergeLearner {
  readonly #symbols: string[] = []
  readonly #ids = new Map<string, number>()
  readonly #pairs = new Map<number, Pair>()
  readonly #words: readonly Word[]
  readonly #queue: TinyQueue<Candidate>

  constructor(words: ReadonlyMap<string, number>) {
    this.#words = Array.from(words, ([word, count], index) => {
      const symbols = Array.from(word, (symbol) => this.#id(symbol))
      symbols.forEach((right, at) => this.#count(symbols[at - 1], right, index, count))
      return { symbols, count }
    })
    const candidates = Array.from(this.#pairs.values(), (pair) => ({ pair, count: pair.count }))
    this.#queue = new TinyQueue<Candidate>(candidates, (a, b) => b.count - a.count)
  }

  /** Merges the most frequent pair everywhere; `undefined` when none is left. */
  next(): Merge | undefined {
    for (;;) {
      const candidate = this.#queue.pop()
      if (candidate === undefined) return undefined
      const { pair, count } = candidate
      if (pair.count === count) {
        this.#merge(pair)
        return [this.#symbols[pair.left] ?? '', this.#symbols[pair.right] ?? '']
      }
      this.#enqueue(pair)
    }
  }

  #merge(pair: Pair): void {
    const merged = this.#id(`${this.#symbols[pair.left]}${this.#symbols[pair.right]}`)
    const grown = new Set<Pair>()
    for (const index of pair.words) {
      const word = this.#words[index]
      if (word === undefined) continue
      const { symbols, count } = word
      for (let at = 0; at + 1 < symbols.length; at++) {
        if (symbols[at] !== pair.left || symbols[at + 1] !== pair.right) continue
        const before = symbols[at - 1]
        const after = symbols[at + 2]
        this.#count(before, pair.left, index, -count)
        this.#count(pair.right, after, index, -count)
        const neighbours = [
          this.#count(before, merged, index, count),
          this.#count(merged, after, index, count),
        ]
        for (const neighbour of neighbours) if (neighbour !== undefined) grown.add(neighbour)
        symbols.splice(at, 2, merged)
      }
    }
    pair.count = 0
    pair.words.clear()
    for (const neighbour of grown) this.#enqueue(neighbour)
  }

  #enqueue(pair: Pair): void {
    if (pair.count > 0) this.#queue.push({ pair, count: pair.count })
  }

  #count(
    left: number | undefined,
    right: number | undefined,
    word: number,
    amount: number,
  ): Pair | undefined {
    if (left === undefined || right === undefined) return undefined
    const key = left * mostSymbols + right
    const pair = entryOf(this.#pairs, key, (): Pair => {
      return { left, right, count: 0, words: new Set() }
    })
    pair.count += amount
    if (amount > 0) pair.words.add(word)
    return pair
  }

  #id(symbol: string): number {
    return entryOf(this.#ids, symbol, () => this.#symbols.push(symbol) - 1)
  }
}

/** Special tokens of Qwen's vocabularies, in the order of their ids. */
const specialTokens = (
  '<|endoftext|> <|im_start|> <|im_end|> <|object_ref_start|> <|object_ref_end|> <|box_start|> <|box_end|> ' +
  '<|quad_start|> <|quad_end|> <|vision_start|> <|vision_end|> <|vision_pad|> <|image_pad|> <|video_pad|> ' +
  '<tool_call> </tool_call> <|fim_prefix|> <|fim_middle|> <|fim_suffix|> <|fim_pad|> <|repo_name|> <|file_sep|> ' +
  '<tool_response> </tool_response> <think> </think>'
).split(' ')

/** Those with bars are of control, as in the original. */
const typeOf = (special: string): TokenType =>
  special.startsWith('<|') ? TokenType.Control : TokenType.UserDefined

const chatTemplate = `{%- for message in messages -%}
{{- '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{- '<|im_start|>assistant\\n' -}}
{%- endif -%}`

/** A byte-level BPE vocabulary. */
export interface BytePairVocabulary {
  readonly tokens: readonly string[]
  readonly types: readonly TokenType[]
  readonly merges: readonly Merge[]
}

/**
 * Lays out a vocabulary of exactly `size` entries: the 256 bytes and the merged symbols up to
 * `specialsAt`, then the special tokens, then unused entries.
 * @param merges taken in order until there is no more room; a merge that makes an existing symbol
 * is left out.
 * @throws RangeError when the merges are too few, or there is no room for the special tokens.
 */
export function bytePairVocabulary(
  merges: Iterable<Merge>,
  size: number,
  specialsAt: number,
): BytePairVocabulary {
  const tokens = new Set(byteAlphabet)
  const used: Merge[] = []
  for (const merge of merges) {
    if (tokens.size === specialsAt) break
    const token = merge.join('')
    if (tokens.has(token)) continue
    tokens.add(token)
    used.push(merge)
  }
  if (tokens.size !== specialsAt || specialsAt + specialTokens.length > size) {
    throw new RangeError(
      `expected ${specialsAt} ordinary and ${specialTokens.length} special tokens to make up to ` +
        `${size}, got ${tokens.size} ordinary ones`,
    )
  }
  for (const special of specialTokens) tokens.add(special)
  for (let id = tokens.size; id < size; id++) tokens.add(`[PAD${id}]`)
  const types = Array.from({ length: size }, (_, id) => {
    if (id < specialsAt) return TokenType.Normal
    const special = specialTokens[id - specialsAt]
    return special === undefined ? TokenType.Unused : typeOf(special)
  })
  return { tokens: [...tokens], types, merges: used }
}

/**
 * The `tokenizer.*` metadata of a byte-level BPE vocabulary with Qwen's pre-tokenizer and a ChatML
 * template.
 */
export function bytePairMetadata({ tokens, types, merges }: BytePairVocabulary): GgufMetadata {
  const idOf = (token: string) => uint32(tokens.indexOf(token))
  return {
    'tokenizer.ggml.model': text('gpt2'),
    'tokenizer.ggml.pre': text('qwen2'),
    'tokenizer.ggml.tokens': texts(tokens),
    'tokenizer.ggml.token_type': int32s(types),
    'tokenizer.ggml.merges': texts(merges.map((pair) => pair.join(' '))),
    'tokenizer.ggml.bos_token_id': idOf('<|endoftext|>'),
    'tokenizer.ggml.padding_token_id': idOf('<|endoftext|>'),
    'tokenizer.ggml.eos_token_id': idOf('<|im_end|>'),
    'tokenizer.ggml.eot_token_id': idOf('<|im_end|>'),
    'tokenizer.ggml.add_bos_token': bool(false),
    'tokenizer.chat_template': text(chatTemplate),
  }
}
