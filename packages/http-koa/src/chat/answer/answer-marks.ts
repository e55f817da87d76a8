import { anyText, type CallFormat, type ChatFormat, toolName } from '../format/chat-format.js'
import { escaped } from '../format/segments.js'
import type { Tools } from './call/open-call.js'

/** The marks of a format that an answer is searched for. */
export interface AnswerMarks {
  /** What may stand in the middle of a text. */
  readonly inline: readonly string[]
  /** Finds the first of these. */
  readonly pattern: RegExp | undefined
  /** The calls that may begin in the middle of a text. */
  readonly calls: ReadonlySet<CallFormat>
  /** What is dropped wherever it stands. */
  readonly closings: readonly string[]
  /** How a call in the template's own way begins, if only a call begins so. */
  readonly own: string | undefined
}

/** The marks of a format, in an answer that may call these tools. */
export function marksOfAnswer(
  { own, calls, thinking, frame }: Pick<ChatFormat, 'own' | 'calls' | 'thinking' | 'frame'>,
  tools: Tools,
): AnswerMarks {
  const inlineCalls = tools.size === 0 ? [] : calls.filter(isInline)
  const ownMark = own === undefined ? '' : firstLiteral(own.section === '' ? own.head : own.section)
  const turns = thinking?.close.startsWith('<|') === true ? [thinking.close] : []
  const closings = [...frame.closings, ...turns].filter((mark) => mark !== '')
  // tokens that no text has
  const channel = thinking?.open.startsWith('<|') === true ? [thinking.open] : []
  const starts = inlineCalls.flatMap(({ gap = '', section, head }) => {
    const marks = [section, head].map(firstLiteral).filter((mark) => mark !== '')
    return marks.flatMap((mark) => [mark, gap + mark])
  })
  const inline = [...new Set([...starts, ...closings, ...channel])]
  return {
    inline,
    pattern: inline.length === 0 ? undefined : new RegExp(inline.map(escaped).join('|')),
    calls: new Set(inlineCalls),
    closings,
    own: tools.size > 0 && /[<[]/.test(ownMark) ? ownMark : undefined,
  }
}

/** The length of a mark at the start of a text that grows. */
export function lengthAt(text: string, mark: string): number | 'maybe' | 'no' {
  if (text.startsWith(mark)) return mark.length
  return mark.startsWith(text) ? 'maybe' : 'no'
}

/**
 * The length of the longest of these marks at the start of a text.
 *
 * @param isOver - whether the text does not grow any more
 */
export function longestAt(
  text: string,
  marks: readonly string[],
  isOver: boolean,
): number | 'maybe' | 'no' {
  let longest: number | 'no' = 'no'
  for (const mark of marks) {
    if (mark === '' || mark === ',' || mark === ';') continue
    const length = lengthAt(text, mark)
    if (length === 'maybe') {
      if (!isOver) return 'maybe'
    } else if (length !== 'no' && (longest === 'no' || length > longest)) longest = length
  }
  return longest
}

/** Characters of a mark that is looked for in the middle of a text. */
const shortestMark = 3

const isInline = ({ section, head, startsOnly }: CallFormat): boolean =>
  startsOnly !== true && firstLiteral(section + head).length >= shortestMark

/** A mark up to what differs from call to call. */
const firstLiteral = (mark: string): string => literal.exec(mark)?.[0] ?? ''
const literal = new RegExp(`^[^\\s\\d${anyText}${toolName}]*`)
