import { possibleStart } from '../answer-part.js'
import { anyText, toolName } from '../../format/chat-format.js'

/** The end of a mark, and the name in it; or that more text decides, or that it is none. */
export type MarkMatch = { readonly end: number; readonly name?: string } | 'maybe' | 'no'

/** Characters that a {@link anyText} stands for at most. */
export const longestAny = 96
/** White space and numbers differ from call to call. */
const stands = anyText + toolName
const piece = new RegExp(`\\s+|\\d+|[${stands}]|[^\\s\\d${stands}]+`, 'g')

/** Whether a mark stands at a place of a text that grows. */
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
  // what it stands for has no marks of its own
  if (skipped.length > longestAny || /[<\n]/.test(skipped)) return 'no'
  return found < 0 ? 'maybe' : backOver(text, found, at, rest[0] ?? '')
}

/** White space before the next mark belongs to that. */
function backOver(text: string, found: number, least: number, next: string): number {
  let at = found
  if (/^\s/.test(next)) while (at > least && /\s/.test(text[at - 1] ?? '')) at--
  return at
}

function nameAt(
  text: string,
  at: number,
  names: readonly string[],
): { readonly name: string } | 'maybe' | 'no' {
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
