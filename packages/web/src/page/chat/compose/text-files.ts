import type { TextFile } from '../conversation.js'

/** Longer texts that are pasted become files, so that the question stays readable. */
export const longPaste = 2000

const mostBytes = 2_000_000

/** The text of a file. Throws where it has none that a model could read. */
export async function readTextFile(file: File): Promise<TextFile> {
  const { name, type, size } = file
  if (type.startsWith('image/')) throw new Error(`${name}: images cannot be sent yet`)
  if (size > mostBytes) throw new Error(`${name}: more than 2 MB`)
  const text = await file.text()
  // A file of another kind has bytes that no text has.
  if (/[\0\uFFFD]/.test(text.slice(0, 4096))) throw new Error(`${name}: not a text file`)
  return { name, text }
}
