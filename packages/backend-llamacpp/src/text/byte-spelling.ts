import { byteAlphabet } from '@cllm/core'

const byteOf = new Map(byteAlphabet.map((character, byte) => [character, byte]))

/** The bytes that a byte-pair token spells, or undefined if it is not spelled in bytes. */
export function spelledBytes(text: string): Uint8Array | undefined {
  const bytes = new Uint8Array(text.length)
  for (let index = 0; index < text.length; index++) {
    const byte = byteOf.get(text.charAt(index))
    if (byte === undefined) return undefined
    bytes[index] = byte
  }
  return bytes
}
