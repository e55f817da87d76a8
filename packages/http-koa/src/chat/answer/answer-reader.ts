import type { CallFormat, ChatFormat } from '../format/chat-format.js'
import { possibleStart, type ReadPart, Thoughts } from './answer-part.js'
import type { CallProgress, CallReader } from './call/call-arguments.js'
import { type CallMatch, type OpenedCall, openCall, longestHead } from './call/open-call.js'
import { type AnswerMarks, lengthAt, longestAt, marksOfAnswer, type Tools } from './answer-marks.js'

/** How an answer is read. */
export interface AnswerReading {
  readonly format: Pick<ChatFormat, 'own' | 'calls' | 'thinking' | 'frame'>
  readonly tools: Tools
  /** Further calls are dropped. */
  readonly mostCalls: number
  readonly thinkingIsOpen: boolean
}

/** A call whose arguments are being read. */
interface OpenCall {
  readonly reader: CallReader
  /** Whether it is returned and not dropped. */
  readonly isGiven: boolean
  /** Its raw text so far. */
  raw: string
}

/**
 * Splits an answer that arrives in pieces into text, reasoning and calls. Text that begins like a call and is none stays
 * text; only marks, and white space beside them, are dropped.
 */
export class AnswerReader {
  readonly #marks: AnswerMarks
  /** Where it is. `start`: before any text; `between`: behind reasoning, a call or a mark. */
  #state: 'start' | 'between' | 'text' | 'reasoning' | OpenCall
  /** The parts read since the last piece. */
  #parts: ReadPart[] = []
  /** Unread text, with the white space before it. */
  #held = ''
  #lead = ''
  /** The length of unread text at which reading is tried again. */
  #nextTry = 0
  #isOver = false
  #callCount = 0
  /** The last call, while more may follow in the same list. */
  #list: { readonly format: CallFormat; readonly hasBracket: boolean } | undefined
  readonly #thoughts = new Thoughts()

  constructor(private readonly reading: AnswerReading) {
    this.#marks = marksOfAnswer(reading.format, reading.tools)
    this.#state = reading.thinkingIsOpen ? 'reasoning' : 'start'
  }

  push(piece: string): readonly ReadPart[] {
    this.#held += piece
    if (this.#held.length < this.#nextTry) return []
    this.#readAll()
    return this.#taken()
  }

  end(): readonly ReadPart[] {
    this.#isOver = true
    this.#held = this.#lead + this.#held
    this.#lead = ''
    this.#readAll()
    while (typeof this.#state === 'object') {
      this.#feed(this.#state, this.#state.reader.end(), '')
      this.#readAll() // what it left
    }
    if (this.#state === 'reasoning') this.#reason('', true)
    return this.#taken()
  }

  #readAll(): void {
    while (this.#held !== '' && this.#step()) {
      // the next state
    }
  }

  #taken(): readonly ReadPart[] {
    const parts = this.#parts
    this.#parts = []
    return parts
  }

  /** Reads one step; whether there may be more to read. */
  #step(): boolean {
    const state = this.#state
    if (state === 'text') return this.#skipText()
    if (state === 'reasoning') return this.#think()
    if (typeof state !== 'object') return this.#begin()
    const piece = this.#held
    this.#held = ''
    return this.#feed(state, state.reader.push(piece), piece)
  }

  /** Reads a place where something may begin. */
  #begin(): boolean {
    const text = this.#held.trimStart()
    const blank = this.#lead + this.#held.slice(0, this.#held.length - text.length)
    this.#lead = ''
    if (text === '') {
      this.#held = ''
      if (this.#isOver) this.#settleBlank(blank)
      else this.#lead = blank
      return false
    }
    return this.#take(blank, text)
  }

  /** Takes in what begins here: reasoning, a call, a mark to be dropped, or text. */
  #take(blank: string, text: string): boolean {
    const { thinking } = this.reading.format
    const open =
      thinking === undefined || thinking.open === '' ? 'no' : lengthAt(text, thinking.open)
    const call = this.#call(text)
    if (typeof call.match !== 'string') {
      this.#nextTry = 0
      this.#drop(blank)
      return this.#enter(call.match, call.format, text)
    }
    const drop = this.#dropAt(text)
    if (!this.#isOver && [open, call.match, drop].includes('maybe') && typeof open !== 'number') {
      this.#lead = blank
      return this.#wait(text)
    }
    this.#nextTry = 0
    const length = typeof open === 'number' ? open : drop
    if (typeof length === 'number') {
      this.#drop(blank + text.slice(0, length))
      this.#held = text.slice(length)
      this.#state = typeof open === 'number' ? 'reasoning' : 'between'
      return true
    }
    this.#list = undefined
    this.#settleBlank(blank)
    this.#state = 'text'
    const [first = ''] = text
    this.#say(first)
    this.#held = text.slice(first.length)
    return true
  }

  /** Holds a text until more has arrived; long text is not examined again for each letter. */
  #wait(text: string): boolean {
    this.#held = text
    if (text.length > longestHead) this.#nextTry = text.length * 1.25
    return false
  }

  #call(text: string) {
    const { calls } = this.reading.format
    const { tools } = this.reading
    let match: CallMatch = 'no'
    const last = this.#list?.format
    if (this.#state !== 'text' && last !== undefined) {
      const next = /^[,;]?\s*/.exec(text)![0]
      const following = next === '' ? 'no' : openCall(last, text.slice(next.length), tools, true)
      if (typeof following !== 'string') {
        return { match: { ...following, end: following.end + next.length }, format: last }
      }
      if (following === 'maybe' || text === next.trim()) match = 'maybe'
    }
    if (tools.size === 0) return { match: 'no', format: calls[0]! }
    for (const format of calls) {
      if (this.#state === 'text' && !this.#marks.calls.has(format)) continue
      const found = openCall(format, text, tools)
      if (typeof found !== 'string') return { match: found, format }
      if (found === 'maybe') match = 'maybe'
    }
    return { match, format: calls[0]! }
  }

  /** The length of a mark that begins here and is not part of the answer. */
  #dropAt(text: string): number | 'maybe' | 'no' {
    const { frame, thinking } = this.reading.format
    const marks = [...this.#marks.closings]
    if (this.#state !== 'text') {
      marks.push(frame.open, thinking?.close ?? '', ...(this.#list?.format.closings ?? []))
      if (this.#list?.hasBracket === true) marks.push(']')
    }
    return longestAt(text, marks, this.#isOver)
  }

  #enter(opened: OpenedCall, format: CallFormat, text: string): boolean {
    this.#held = text.slice(opened.end)
    this.#list = { format, hasBracket: opened.inList || this.#list?.hasBracket === true }
    let raw = text.slice(0, opened.end)
    if ('calls' in opened) {
      for (const call of opened.calls) {
        if (this.#callCount++ >= this.reading.mostCalls) break
        this.#parts.push({ type: 'call', call }, { type: 'call-end', raw, isWhole: true })
        raw = ''
      }
      this.#drop(raw)
      this.#state = 'between'
      return true
    }
    const { name, reader } = opened
    const isGiven = this.#callCount++ < this.reading.mostCalls
    if (isGiven) this.#parts.push({ type: 'call', call: { name, arguments: '' } })
    this.#state = { reader, isGiven, raw }
    return true
  }

  /** Takes in a call's progress. */
  #feed(call: OpenCall, { text, rest }: CallProgress, piece: string): boolean {
    const { reader, isGiven } = call
    if (text !== '' && isGiven) this.#parts.push({ type: 'arguments', text })
    call.raw += piece
    if (rest === undefined) return false
    // the call's reader may have held back more than the last piece
    const raw = call.raw.slice(0, call.raw.length - rest.length)
    if (isGiven) this.#parts.push({ type: 'call-end', raw, isWhole: reader.isWhole })
    else this.#drop(raw)
    this.#held = rest
    this.#state = 'between'
    return true
  }

  #skipText(): boolean {
    const { pattern, inline } = this.#marks
    const at = pattern === undefined ? -1 : this.#held.search(pattern)
    const mayBegin = at >= 0 || this.#isOver ? 0 : possibleStart(this.#held, inline)
    const certain = at >= 0 ? at : this.#held.length - mayBegin
    this.#say(this.#held.slice(0, certain))
    this.#held = this.#held.slice(certain)
    return at < 0 ? false : this.#begin()
  }

  #think(): boolean {
    const { close } = this.reading.format.thinking!
    const { own } = this.#marks
    const at = this.#held.indexOf(close)
    const called = own === undefined ? -1 : this.#held.indexOf(own)
    if (called >= 0 && (at < 0 || called < at)) return this.#thinkUntil(called)
    const before = this.#isOver ? 0 : possibleStart(this.#held, [close, own ?? ''])
    const certain = at >= 0 ? at : this.#held.length - before
    this.#reason(this.#held.slice(0, certain), at >= 0 || this.#isOver)
    this.#held = this.#held.slice(at >= 0 ? at + close.length : certain)
    if (at < 0) return false
    this.#drop(close)
    this.#state = 'between'
    return true
  }

  /** Reads reasoning up to here, where it ends or a call ends it. */
  #thinkUntil(at: number): boolean {
    const [before, text] = [this.#held.slice(0, at), this.#held.slice(at)]
    const { own } = this.reading.format
    const match = own === undefined ? 'no' : openCall(own, text, this.reading.tools)
    if (match === 'maybe' && !this.#isOver) {
      this.#reason(before, false)
      return this.#wait(text)
    }
    this.#nextTry = 0
    if (typeof match !== 'string') {
      this.#reason(before, true)
      return this.#enter(match, own!, text)
    }
    const [first = ''] = text
    this.#reason(before + first, false)
    this.#held = text.slice(first.length)
    return true
  }

  #reason(text: string, isEnd: boolean): void {
    for (const part of this.#thoughts.push(text, isEnd)) this.#parts.push(part)
  }

  /** Drops white space beside a mark; elsewhere it belongs to the text. */
  #settleBlank(blank: string): void {
    if (this.#state === 'between') this.#drop(blank)
    else this.#say(blank)
  }

  #drop(text: string): void {
    if (text !== '') this.#parts.push({ type: 'dropped', text })
  }

  #say(text: string): void {
    if (text === '') return
    const last = this.#parts.at(-1)
    if (last?.type === 'text')
      this.#parts[this.#parts.length - 1] = { type: 'text', text: last.text + text }
    else this.#parts.push({ type: 'text', text })
  }
}
