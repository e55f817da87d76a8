import { parsedJson } from '../../fields/fields.js'
import type { ArgumentMarks, ArgumentsFormat } from './chat-format.js'
import {
  anyText,
  argumentName,
  commonEnd,
  commonStart,
  sharedEnd,
  sharedStart,
} from './chat-format.js'
import { probe, probeArguments } from './probe.js'

/** The place of a call's arguments in a rendered text, and their format. */
export interface ShownArguments {
  readonly format: ArgumentsFormat
  readonly start: number
  readonly end: number
}

/** Finds the arguments of the call whose name ends at `from`. */
export function findArguments(shown: string, from: number): ShownArguments | undefined {
  const key = shown.indexOf(probe.keys[0], from)
  const text = shown.indexOf(probe.text, key)
  const second = shown.indexOf(probe.keys[1], text)
  const number = shown.indexOf(String(probe.number), second)
  if (key < 0 || text < 0 || second < 0 || number < 0) return undefined
  const end = number + String(probe.number).length
  const json = shown.lastIndexOf('{', key)
  const whole = json < from ? undefined : parsedAt(shown, json)
  if (whole !== undefined && isProbe(whole.value)) {
    return { format: { kind: 'json' }, start: json, end: whole.end }
  }
  const between = shown.slice(key + probe.keys[0].length, text)
  const bracket = shown.slice(from, key).trim().at(-1)
  if (/^\s*=/.test(between) && bracket === '(') {
    return literal(shown, shown.lastIndexOf('(', key), end, ')')
  }
  if (/^['"]?\s*:/.test(between) && /[{'"]/.test(bracket ?? '') && json >= from) {
    const quote = between.replace(/^['"]?\s*:\s*/, '')
    return literal(shown, json, end, '}', /^['"]?$/.test(quote) ? undefined : quote)
  }
  return tagged(shown, { key, text, second, number, end, from })
}

function literal(shown: string, start: number, from: number, ends: '}' | ')', quote?: string) {
  const end = shown.indexOf(ends, from)
  if (end < 0 || start < 0) return undefined
  const format = { kind: 'literal', ends, ...(quote === undefined ? {} : { quote }) } as const
  return { format, start, end: end + 1 }
}

/** Arguments that are each between marks. The rendered call must go on behind the second one. */
function tagged(
  shown: string,
  at: Readonly<Record<'key' | 'text' | 'second' | 'number' | 'end' | 'from', number>>,
): ShownArguments | undefined {
  const [first, other] = probe.keys
  const named = (text: string, key: string) => text.replaceAll(key, argumentName)
  const toFirst = shown.slice(at.from, at.key)
  const toSecond = named(shown.slice(at.text + probe.text.length, at.second), first)
  const open = commonEnd(toFirst, toSecond)
  const close = toSecond.slice(0, toSecond.length - open.length)
  const texts = shown.slice(at.key + first.length, at.text)
  const numbers = shown.slice(at.second + other.length, at.number)
  if (open.trim() === '' || texts === '' || close.trim() === '') return undefined
  const ending = named(shown.slice(at.end), other)
  const closed = commonStart(close, ending)
  if (closed.trim() === '') return undefined
  return {
    format: { kind: 'tagged', marks: marksOf(open, closed, texts, numbers) },
    start: at.key - open.length,
    end: at.end + closed.replaceAll(argumentName, other).length,
  }
}

function marksOf(open: string, close: string, texts: string, numbers: string): ArgumentMarks {
  const value = typed(texts, numbers)
  return {
    open: open.trim(),
    value: value.mark.trim(),
    ...(value.text === undefined ? {} : { textType: value.text }),
    close: close.trim(),
    before: /\s*$/.exec(value.mark)?.[0] ?? '',
    after: /^\s*/.exec(close)?.[0] ?? '',
  }
}

/** The mark between name and value, which in some templates tells texts from other values. */
function typed(texts: string, numbers: string): { mark: string; text?: string } {
  if (texts === numbers) return { mark: texts }
  const before = sharedStart(texts.split(''), numbers.split('')).join('')
  const [text, number] = [texts, numbers].map((mark) => mark.slice(before.length))
  const after = sharedEnd(text!.split(''), number!.split('')).join('')
  return { mark: before + anyText + after, text: text!.slice(0, text!.length - after.length) }
}

const isProbe = (value: unknown): boolean =>
  JSON.stringify(value) === JSON.stringify(probeArguments)

/** The JSON object that begins at a place of a text. */
export function parsedAt(text: string, start: number) {
  for (let end = text.indexOf('}', start); end >= 0; end = text.indexOf('}', end + 1)) {
    const value = parsedJson(text.slice(start, end + 1))
    // undefined: the object ends at a later brace
    if (value !== undefined) return { value, end: end + 1 }
  }
  return undefined
}
