import { byteAlphabet } from '@cllm/core'
import type { Merge } from './byte-pair-merges.js'
import type { GgufMetadata } from '../format/gguf-types.js'
import { bool, int32s, text, texts, uint32 } from '../format/gguf-values.js'
import { TokenType } from '../format/token-type.js'

/** Special tokens of Qwen's vocabularies, in the order of their ids, with their type. */
const specialTokens: readonly (readonly [name: string, type: TokenType])[] = [
  ['<|endoftext|>', TokenType.Control],
  ['<|im_start|>', TokenType.Control],
  ['<|im_end|>', TokenType.Control],
  ['<|object_ref_start|>', TokenType.Control],
  ['<|object_ref_end|>', TokenType.Control],
  ['<|box_start|>', TokenType.Control],
  ['<|box_end|>', TokenType.Control],
  ['<|quad_start|>', TokenType.Control],
  ['<|quad_end|>', TokenType.Control],
  ['<|vision_start|>', TokenType.Control],
  ['<|vision_end|>', TokenType.Control],
  ['<|vision_pad|>', TokenType.Control],
  ['<|image_pad|>', TokenType.Control],
  ['<|video_pad|>', TokenType.Control],
  ['<tool_call>', TokenType.UserDefined],
  ['</tool_call>', TokenType.UserDefined],
  ['<|fim_prefix|>', TokenType.Control],
  ['<|fim_middle|>', TokenType.Control],
  ['<|fim_suffix|>', TokenType.Control],
  ['<|fim_pad|>', TokenType.Control],
  ['<|repo_name|>', TokenType.Control],
  ['<|file_sep|>', TokenType.Control],
  ['<tool_response>', TokenType.UserDefined],
  ['</tool_response>', TokenType.UserDefined],
  ['<think>', TokenType.UserDefined],
  ['</think>', TokenType.UserDefined],
]

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
  for (const [name] of specialTokens) tokens.add(name)
  for (let id = tokens.size; id < size; id++) tokens.add(`[PAD${id}]`)
  const types = Array.from({ length: size }, (_, id) => {
    if (id < specialsAt) return TokenType.Normal
    return specialTokens[id - specialsAt]?.[1] ?? TokenType.Unused
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
