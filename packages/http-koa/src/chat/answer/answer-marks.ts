import { anyText, type CallFormat, type ChatFormat, toolName } from '../format/chat-format.js'
import { possibleStart } from './answer-part.js'
import type { Tools } from './call/open-call.js'

/** Finds the marks of a format in an answer. */
export class AnswerMarks {
  readonly #format: Pick<ChatFormat, 'own' | 'calls' | 'thinking' | 'frame'>
  /** What may stand in the middle of a text. */
  readonly #inline: readonly string[]
  readonly #pattern: RegExp | undefined
  readonly #inlineFormats: ReadonlySet<CallFormat>
  readonly #closings: readonly string[]
  readonly #own: string

  constructor(format: Pick<ChatFormat, 'own' | 'calls' | 'thinking' | 'frame'>, tools: Tools) {
    this.#format = format
    const { thinking, frame, calls } = format
    const formats = tools.size === 0 ? [] : calls.filter(isInline)
    this.#inlineFormats = new Set(formats)
    const { own } = format
    const mark = own === undefined ? '' : firstLiteral(own.section === '' ? own.head : own.section)
    this.#own = tools.size > 0 && /[<[]/.test(mark) ? mark : ''
    const turns = thinking !== undefined && thinking.close.startsWith('<|') ? [thinking.close] : []
    this.#closings = [...frame.closings, ...turns].filter((mark) => mark !== '')
    const channel = thinking !== undefined && isChannel(thinking.open) ? [thinking.open] : []
    const starts = formats.flatMap(({ section, head }) => [
      firstLiteral(section),
      firstLiteral(head),
    ])
    this.#inline = [...new Set([...starts, ...this.#closings, ...channel])].filter(
      (mark) => mark !== '',
    )
    if (this.#inline.length > 0) {
      this.#pattern = new RegExp(this.#inline.map(escaped).join('|'))
    }
  }

  /** Whether calls in this format may begin in the middle of a text. */
  isInline(format: CallFormat): boolean {
    return this.#inlineFormats.has(format)
  }

  /** Where the first mark of a text is. */
  firstIn(text: string): number | undefined {
    const at = this.#pattern === undefined ? -1 : text.search(this.#pattern)
    return at < 0 ? undefined : at
  }

  /** Characters at the end that may be the beginning of a mark. */
  possible(text: string): number {
    return possibleStart(text, this.#inline)
  }

  /** Where a call in the template's own way may begin, if only a call begins so. */
  callIn(text: string): number | undefined {
    const at = this.#own === '' ? -1 : text.indexOf(this.#own)
    return at < 0 ? undefined : at
  }

  /** Characters at the end that may be the beginning of such a call. */
  possibleCall(text: string): number {
    return this.#own === '' ? 0 : possibleStart(text, [this.#own])
  }

  /** The length of the mark with which reasoning begins here. */
  thinkingBegins(text: string): number | 'maybe' | 'no' {
    const { thinking } = this.#format
    return thinking === undefined || thinking.open === '' ? 'no' : lengthAt(text, thinking.open)
  }

  /** The length of what begins a text and is no part of the answer. */
  dropAt(
    text: string,
    isStart: boolean,
    last: CallFormat | undefined,
    inList: boolean,
    isOver: boolean,
  ): number | 'maybe' | 'no' {
    const { frame, thinking } = this.#format
    const marks = [
      ...this.#closings,
      ...(isStart ? [frame.open, thinking?.close ?? '', ...(last?.closings ?? [])] : []),
      ...(isStart && inList ? [']'] : []),
    ].filter((mark) => mark !== '' && mark !== ',' && mark !== ';')
    let longest: number | 'no' = 'no'
    let goesOn = false
    for (const mark of marks) {
      const length = lengthAt(text, mark)
      if (length === 'maybe') goesOn = true
      else if (length !== 'no' && (longest === 'no' || length > longest)) longest = length
    }
    return goesOn && !isOver ? 'maybe' : longest
  }
}

function lengthAt(text: string, mark: string): number | 'maybe' | 'no' {
  if (text.startsWith(mark)) return mark.length
  return mark.startsWith(text) ? 'maybe' : 'no'
}

/** Characters of a mark that is looked for in the middle of a text. */
const shortestMark = 3

const isInline = ({ section, head, startsOnly }: CallFormat): boolean =>
  startsOnly !== true && firstLiteral(section + head).length >= shortestMark

/** Tokens that no text has. */
const isChannel = (mark: string): boolean => mark.startsWith('<|')

/** A mark up to what differs from call to call. */
const firstLiteral = (mark: string): string => pattern.exec(mark)?.[0] ?? ''
const pattern = new RegExp(`^[^\\s\\d${anyText}${toolName}]*`)

const escaped = (text: string): string => text.replace(/[\\^$.*+?()[\]{}|/-]/g, String.raw`\$&`)
