/** A line of a file, and where its bytes are. */
export interface PlacedLine {
  /** From 1; empty lines count. */
  readonly line: number
  readonly text: string
  readonly at: number
  readonly bytes: number
}

const newline = '\n'.charCodeAt(0)

/**
 * The lines of a content, with their numbers from 1; empty ones are left out. Only `\n` ends one, with or
 * without `\r`: other ends of lines, as Node's readline has them, may stand within JSON.
 */
export async function* splitLines(content: AsyncIterable<Uint8Array>): AsyncGenerator<PlacedLine> {
  let [line, at] = [0, 0]
  let begun: Uint8Array[] = []
  const ended = (): PlacedLine => {
    const bytes = Buffer.concat(begun)
    const text = bytes.toString('utf8').replace(/\r$/, '')
    return { line: ++line, text, at, bytes: bytes.length }
  }
  for await (const piece of content) {
    let from = 0
    for (let end: number; (end = piece.indexOf(newline, from)) >= 0; from = end + 1) {
      begun.push(piece.subarray(from, end))
      const next = ended()
      begun = []
      at += next.bytes + 1
      if (next.text.trim() !== '') yield next
    }
    begun.push(piece.subarray(from))
  }
  const last = ended()
  if (last.text.trim() !== '') yield last
}
