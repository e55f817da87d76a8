import type { CallFormat, ChatFormat, ToolDefinition } from '../format/chat-format.js'
import { anyText, escaped, toolName } from '../format/chat-format.js'
import { possibleStart } from './answer-part.js'

/** The tools that may be called, by name. */
export type Tools = ReadonlyMap<string, ToolDefinition>

/** The marks of a format that an answer is searched for. */
export type AnswerMarks = ReturnType<typeof marksOfAnswer>

/** The marks of a format, for an answer that may call these tools. */
export function marksOfAnswer(
  { own, calls, thinking, frame }: Pick<ChatFormat, 'own' | 'calls' | 'thinking' | 'frame'>,
  tools: Tools,
) {
  const inlineCalls = tools.size === 0 ? [] : calls.filter(isInline)
  const ownMark = own === undefined ? '' : firstLiteral(own.section === '' ? own.head : own.section)
  const turns = thinking?.close.startsWith('<|') === true ? [thinking.close] : []
  const closings = [...frame.closings, ...turns].filter((mark) => mark !== '')
  // special tokens, which never occur in a text
  const channel = thinking?.open.startsWith('<|') === true ? [thinking.open] : []
  const starts = inlineCalls.flatMap(({ gap = '', section, head }) => {
    const marks = [section, head].map(firstLiteral).filter((mark) => mark !== '')
    return marks.flatMap((mark) => [mark, gap + mark])
  })
  const inline = [...new Set([...starts, ...closings, ...channel])]
  return {
    /** Marks that may occur in the middle of a text. */
    inline,
    /** Finds the first of the `inline` marks. */
    pattern: inline.length === 0 ? undefined : new RegExp(inline.map(escaped).join('|')),
    /** The formats of calls that may begin in the middle of a text. */
    calls: new Set(inlineCalls),
    /** Marks that are dropped wherever they occur. */
    closings,
    /** The beginning of a call in the template's own format, if nothing else begins like that. */
    own: tools.size > 0 && /[<[]/.test(ownMark) ? ownMark : undefined,
  }
}

/** The length of a mark at the start of a text to which more may be added; `maybe`: more text decides. */
export function lengthAt(text: string, mark: string): number | 'maybe' | 'no' {
  if (text.startsWith(mark)) return mark.length
  return mark.startsWith(text) ? 'maybe' : 'no'
}

/**
 * The length of the longest of these marks at the start of a text.
 *
 * @param isOver - whether the text is complete
 */
export function longestAt(text: string, marks: readonly string[], isOver: boolean) {
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

/** The least length of a mark that is searched for in the middle of a text. */
const shortestMark = 3

const isInline = ({ section, head, startsOnly }: CallFormat): boolean =>
  startsOnly !== true && firstLiteral(section + head).length >= shortestMark

/** The constant beginning of a mark, up to the first part that differs between calls. */
const firstLiteral = (mark: string): string => literal.exec(mark)?.[0] ?? ''
const literal = new RegExp(`^[^\\s\\d${anyText}${toolName}]*`)

/** The end of a mark and the name in it; `maybe`: more text decides; `no`: there is no mark. */
export type MarkMatch = { readonly end: number; readonly name?: string } | 'maybe' | 'no'

/** The most characters that an {@link anyText} matches. */
export const longestAny = 96
/** The placeholders in a mark. White space and numbers, which differ between calls as well, match any other. */
const stands = anyText + toolName
const piece = new RegExp(`\\s+|\\d+|[${stands}]|[^\\s\\d${stands}]+`, 'g')

/** Matches a mark at a place of a text to which more may be added. */
export function matchMark(
  mark: string,
  text: string,
  start: number,
  names: readonly string[] = [],
): MarkMatch {
  const pieces = mark.match(piece) ?? []
  let at = start
  let name: string | undefined
  for (const [index, part] of pieces.entries()) {
    if (/^\s/.test(part)) {
      while (/\s/.test(text[at] ?? '')) at++
    } else if (/^\d/.test(part)) {
      while (/\d/.test(text[at] ?? '')) at++
    } else if (part === anyText) {
      const end = endOfAny(pieces.slice(index + 1), text, at)
      if (typeof end === 'string') return end
      at = end
    } else if (part === toolName) {
      const found = nameAt(text, at, names)
      if (found === 'maybe' || found === 'no') return found
      name = found.name
      at += name.length
    } else if (text.startsWith(part, at)) at += part.length
    else return part.startsWith(text.slice(at)) ? 'maybe' : 'no'
  }
  return { end: at, ...(name === undefined ? {} : { name }) }
}

function endOfAny(rest: readonly string[], text: string, at: number): number | 'maybe' | 'no' {
  const next = rest.find((part) => !/^[\s\d]/.test(part))
  if (next === undefined || next === toolName) return at
  const found = text.indexOf(next, at)
  const until = found < 0 ? text.length - possibleStart(text.slice(at), [next]) : found
  const skipped = text.slice(at, until)
  // the matched text cannot contain marks itself
  if (skipped.length > longestAny || /[<\n]/.test(skipped)) return 'no'
  return found < 0 ? 'maybe' : backOver(text, found, at, rest[0] ?? '')
}

/** Goes back over white space, which belongs to the next mark. */
function backOver(text: string, found: number, least: number, next: string): number {
  let at = found
  if (/^\s/.test(next)) while (at > least && /\s/.test(text[at - 1] ?? '')) at--
  return at
}

function nameAt(text: string, at: number, names: readonly string[]) {
  let longest: string | undefined
  const rest = text.slice(at)
  for (const name of names) {
    if (rest.length < name.length && name.startsWith(rest)) return 'maybe'
    if (rest.startsWith(name) && name.length > (longest?.length ?? 0)) longest = name
  }
  if (longest === undefined) return 'no'
  const next = rest[longest.length]
  if (next === undefined) return 'maybe'
  return /[\w-]/.test(next) && /[\w-]$/.test(longest) ? 'no' : { name: longest }
}
