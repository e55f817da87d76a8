/**
 * What a template writes, in pieces that are not cut: tags (`<tool_call>`, `[TOOL_CALLS]`), code
 * fences, white space, words, and single characters.
 */
const segment =
  /<\|(?:open|close)\|>[^<>|]*<\|sep\|>|<[^<>\s][^<>\n]{0,80}>|\[\/?[A-Z][A-Z_ ]*\]|`{3}\w*|\s+|[\p{L}\p{N}_]+|[^]/gu
const tag =
  /^(?:<[^<>\s][^<>\n]{0,80}>|\[\/?[A-Z][A-Z_ ]*\]|`{3}\w*|<\|(?:open|close)\|>[^<>|]*<\|sep\|>)$/

/** The pieces of a text. */
export const segmentsOf = (text: string): readonly string[] => text.match(segment) ?? []

/** Whether a piece is a tag or a fence. */
export const isTag = (piece: string): boolean => tag.test(piece)

/** Whether a text holds a tag or a fence. */
export const hasTag = (text: string): boolean => segmentsOf(text).some(isTag)

/** A text as part of a regular expression. */
export const escaped = (text: string): string =>
  text.replace(/[\\^$.*+?()[\]{}|/]/g, String.raw`\$&`)

/** What both texts begin with, in whole pieces. */
export function commonStart(one: string, other: string): string {
  const [left, right] = [segmentsOf(one), segmentsOf(other)]
  let count = 0
  while (count < left.length && left[count] === right[count]) count++
  return left.slice(0, count).join('')
}

/** What both texts end with, in whole pieces. */
export function commonEnd(one: string, other: string): string {
  const [left, right] = [segmentsOf(one), segmentsOf(other)]
  let count = 0
  while (
    count < left.length &&
    count < right.length &&
    left[left.length - 1 - count] === right[right.length - 1 - count]
  ) {
    count++
  }
  return left.slice(left.length - count).join('')
}

/** The text without this beginning; the whole text where it begins otherwise. */
export const withoutStart = (text: string, start: string): string =>
  text.startsWith(start) ? text.slice(start.length) : text

/** The text without this ending; the whole text where it ends otherwise. */
export const withoutEnd = (text: string, end: string): string =>
  end !== '' && text.endsWith(end) ? text.slice(0, -end.length) : text
