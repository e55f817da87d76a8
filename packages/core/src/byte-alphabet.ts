/**
 * The printable character of each byte in a byte-level BPE vocabulary, as GPT-2 chose
 * them: printable Latin-1 maps to itself, the other bytes for U+0100 onwards in order.
 */
export const byteAlphabet: readonly string[] = Array.from({ length: 256 }, (_, byte) => {
  if (isPrintable(byte)) return String.fromCharCode(byte)
  let others = 0
  for (let lower = 0; lower < byte; lower++) if (!isPrintable(lower)) others++
  return String.fromCharCode(256 + others)
})

/** A text's UTF-8 bytes, each as its character of {@link byteAlphabet}. */
export function toByteAlphabet(text: string): string {
  let result = ''
  for (const byte of new TextEncoder().encode(text)) result += byteAlphabet[byte] ?? ''
  return result
}

function isPrintable(byte: number): boolean {
  return (byte > 0x20 && byte < 0x7f) || (byte > 0xa0 && byte !== 0xad)
}
