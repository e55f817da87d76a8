import { byteAlphabet } from '@cllm/core'
import type { Merge } from './byte-pair-merges.js'
import {
  bool,
  type GgufMetadata,
  int32s,
  text,
  texts,
  TokenType,
  uint32,
} from '../format/gguf-types.js'

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
  specialsAt = size - specialTokens.length,
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
