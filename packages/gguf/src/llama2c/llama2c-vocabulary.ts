import { CllmError } from '@cllm/core'
import { TokenType } from '../format/token-type.js'

/** A SentencePiece vocabulary in the form of llama.cpp's `llama` tokenizer. */
export interface SentencePieceVocabulary {
  readonly tokens: readonly string[]
  readonly scores: readonly number[]
  readonly types: readonly TokenType[]
}

const specialNames = ['<unk>', '<s>', '</s>']
const firstByte = specialNames.length
const byteCount = 256

/**
 * Reads the older vocabulary file of llama2.c: the longest token's length as `uint32`, then for
 * each token its score as `float32`, its length as `int32` and its bytes. The three special tokens
 * and the 256 single bytes get the names that llama.cpp expects, spaces become U+2581.
 * @throws CllmError `model_invalid` when the data ends before `size` tokens were read.
 */
export function readLlama2cVocabulary(data: Uint8Array, size: number): SentencePieceVocabulary {
  const view = new DataView(data.buffer, data.byteOffset, data.length)
  const decoder = new TextDecoder('utf-8', { ignoreBOM: true })
  const tokens: string[] = []
  const scores: number[] = []
  const types: TokenType[] = []
  let position = 4
  for (let id = 0; id < size; id++) {
    const length = position + 8 <= data.length ? view.getInt32(position + 4, true) : -1
    const start = position + 8
    if (length < 0 || start + length > data.length) {
      throw new CllmError(
        'model_invalid',
        `expected a llama2.c vocabulary of ${size} tokens, ` +
          `got ${data.length} bytes that end in token ${id}`,
      )
    }
    scores.push(view.getFloat32(position, true))
    tokens.push(nameOf(id, decoder.decode(data.subarray(start, start + length))))
    types.push(typeOf(id))
    position = start + length
  }
  return { tokens, scores, types }
}

function nameOf(id: number, piece: string): string {
  const special = specialNames[id]
  if (special !== undefined) return special
  const byte = id - firstByte
  if (byte >= byteCount) return piece.replaceAll(' ', '\u2581')
  return `<0x${byte.toString(16).toUpperCase().padStart(2, '0')}>`
}

function typeOf(id: number): TokenType {
  if (id === 0) return TokenType.Unknown
  if (id < firstByte) return TokenType.Control
  return id < firstByte + byteCount ? TokenType.Byte : TokenType.Normal
}
