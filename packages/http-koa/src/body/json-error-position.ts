import { parse } from '@humanwhocodes/momoa'

/** A position in a text; both numbers count from 1. */
export interface TextPosition {
  readonly line: number
  readonly column: number
}

/** The most characters to search: finding the position takes 40 times as long as parsing. */
const longestText = 100_000

/** The position of the first error in a JSON text, which `JSON.parse` does not always report. */
export function jsonErrorPosition(text: string): TextPosition | undefined {
  if (text.length > longestText) return undefined
  try {
    parse(text)
    return undefined
  } catch (error) {
    if (error instanceof Error && error.message.startsWith('Unexpected end')) return endOf(text)
    const { line, column } = error as Partial<TextPosition>
    return line === undefined || column === undefined ? undefined : { line, column }
  }
}

function endOf(text: string): TextPosition {
  const lines = text.split('\n')
  return { line: lines.length, column: (lines.at(-1) ?? '').length + 1 }
}
