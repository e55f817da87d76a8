import type { ChatFormat } from './chat-format.js'

/** All that a model may write around text, reasoning and calls; undefined where that is nothing. */
export function marksOf({
  calls,
  thinking,
  frame,
}: Pick<ChatFormat, 'calls' | 'thinking' | 'frame'>): readonly string[] | undefined {
  const marks = [
    ...calls.flatMap(({ section, head, closings, arguments: written }) => [
      section,
      head,
      ...closings,
      ...(written.kind === 'tagged'
        ? [written.marks.open, written.marks.value, written.marks.close]
        : []),
      ...(written.kind === 'literal' && written.quote !== undefined ? [written.quote] : []),
    ]),
    thinking?.open ?? '',
    thinking?.close ?? '',
    frame.open,
    ...frame.closings,
  ].filter((mark) => /\S/.test(mark))
  return marks.length === 0 ? undefined : [...new Set(marks)]
}
