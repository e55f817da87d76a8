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

/** What both lists begin with. */
export function sharedStart(left: readonly string[], right: readonly string[]): readonly string[] {
  const end = left.findIndex((piece, index) => piece !== right[index])
  return end < 0 ? left : left.slice(0, end)
}

/** What both lists end with. */
export const sharedEnd = (left: readonly string[], right: readonly string[]): readonly string[] =>
  sharedStart(left.toReversed(), right.toReversed()).toReversed()

/** What both texts begin with, in whole pieces. */
export const commonStart = (one: string, other: string): string =>
  sharedStart(segmentsOf(one), segmentsOf(other)).join('')

/** What both texts end with, in whole pieces. */
export const commonEnd = (one: string, other: string): string =>
  sharedEnd(segmentsOf(one), segmentsOf(other)).join('')

/** The text without this beginning; the whole text where it begins otherwise. */
export const withoutStart = (text: string, start: string): string =>
  text.startsWith(start) ? text.slice(start.length) : text

/** The text without this ending; the whole text where it ends otherwise. */
export const withoutEnd = (text: string, end: string): string =>
  end !== '' && text.endsWith(end) ? text.slice(0, -end.length) : text
