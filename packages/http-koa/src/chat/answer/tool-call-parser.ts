import { type AnswerParser, type AnswerPart, possibleStart, type ToolCall } from './answer-part.js'
import { CallScanner, hermes, marks } from './call-scanner.js'
import { readToolCalls } from './read-tool-calls.js'
import { StreamedCall } from './streamed-call.js'

/** Only behind `<tool_call>`, or only where the answer is JSON and nothing else. */
export type CallOpening = 'marked' | 'bare'

/** Characters within which a call's arguments begin, else it is given when it is whole. */
const longestOpening = 1024

/** What a {@link ToolCallParser} finds. */
export interface ToolCallOptions {
  /** Calls beyond are dropped: 1 where `parallel_tool_calls` is false. */
  readonly most?: number | undefined
  /** Gives arguments as they come: then what breaks off, or is no JSON, shows as such. */
  readonly streams: boolean
  readonly begin?: CallOpening | undefined
}

/**
 * Finds tool calls in an answer: `<tool_call>{…}</tool_call>` (Hermes, Qwen), `[TOOL_CALLS][{…}]` and
 * `[TOOL_CALLS]name[ARGS]{…}` (Mistral), `<|python_tag|>{…}` and bare `{"name": …}` (Llama 3), and
 * JSON in a code fence. Bare and fenced JSON counts at the beginning of the answer only, and in
 * every form only what names one of the request's tools: the rest is text.
 */
export class ToolCallParser implements AnswerParser {
  readonly #names: ReadonlySet<string>
  readonly #most: number
  readonly #streams: boolean
  readonly #begins: CallOpening | undefined
  readonly #marks: readonly string[]
  /** What an answer that is a call may begin with. */
  readonly #starts: readonly string[]
  #count = 0
  /** `bare`: nothing but white space has come, or a call has just ended. */
  #state: 'bare' | 'text' | 'call' = 'bare'
  /** White space before anything else. */
  #blank = ''
  #held = ''
  /** Where the call that is held ends. */
  #scanner = new CallScanner()
  /** The one whose arguments come. */
  #open: StreamedCall | undefined

  constructor(names: Iterable<string>, { most = Infinity, streams, begin }: ToolCallOptions) {
    this.#names = new Set(names)
    this.#most = most
    this.#streams = streams
    this.#begins = begin
    this.#marks = begin === undefined ? marks : begin === 'marked' ? [hermes] : []
    const bare = ['```json', ...Array.from(this.#names, (name) => `${name}[ARGS]{`)]
    this.#starts = begin === undefined ? [...marks, ...bare] : this.#marks
  }

  push(text: string): readonly AnswerPart[] {
    const parts: AnswerPart[] = []
    for (let rest = text; rest !== '';) rest = this.#take(rest, parts)
    return parts
  }

  end(): readonly AnswerPart[] {
    const parts: AnswerPart[] = []
    if (this.#open !== undefined) return parts
    const text = this.#blank + this.#held
    this.#blank = this.#held = ''
    const calls = this.#state === 'text' ? undefined : this.#read(callText(text))
    if (calls !== undefined) this.#give(calls, parts)
    else if (this.#count === 0 || text.trim() !== '') say(text, parts)
    return parts
  }

  /** Takes a piece; returns what of it is for the next state. */
  #take(piece: string, parts: AnswerPart[]): string {
    if (this.#open !== undefined) return this.#goOn(this.#open, piece, parts)
    switch (this.#state) {
      case 'bare':
        return this.#begin(piece)
      case 'text':
        return this.#skipText(piece, parts)
      case 'call':
        return this.#readCall(piece, parts)
    }
  }

  #begin(piece: string): string {
    const begin = this.#held === '' ? piece.trimStart() : piece
    this.#blank += piece.slice(0, piece.length - begin.length)
    this.#held += begin
    if (this.#held === '') return ''
    const isCall = this.#isCall(this.#held)
    if (!isCall && this.#starts.some((start) => start.startsWith(this.#held))) return ''
    const text = isCall || this.#count === 0 ? this.#blank + this.#held : this.#held
    this.#blank = this.#held = ''
    if (isCall) this.#enterCall()
    else this.#state = 'text'
    return text
  }

  #enterCall(): void {
    this.#state = 'call'
    this.#scanner = new CallScanner()
  }

  #isCall(begin: string): boolean {
    if (this.#marks.some((mark) => begin.startsWith(mark))) return true
    if (this.#begins !== undefined) return this.#begins === 'bare' && /^[{[]/.test(begin)
    return (
      /^(\{|\[|```)/.test(begin) ||
      (this.#count > 0 && begin.startsWith(';')) ||
      this.#startsWithName(begin)
    )
  }

  #startsWithName(begin: string): boolean {
    return Array.from(this.#names).some((name) => /^(\[ARGS\])?\s*\{/.test(rest(begin, name)))
  }

  #skipText(piece: string, parts: AnswerPart[]): string {
    const text = this.#held + piece
    const at = firstOf(text, this.#marks)
    const certain = at ?? text.length - possibleStart(text, this.#marks)
    say(text.slice(0, certain), parts)
    this.#held = at === undefined ? text.slice(certain) : ''
    if (at === undefined) return ''
    this.#enterCall()
    return text.slice(at)
  }

  #goOn(open: StreamedCall, piece: string, parts: AnswerPart[]): string {
    const { text, rest } = open.push(piece)
    if (text !== '') parts.push({ type: 'arguments', text })
    if (rest === undefined) return ''
    this.#open = undefined
    this.#state = 'bare'
    return rest
  }

  #readCall(piece: string, parts: AnswerPart[]): string {
    const before = this.#held.length
    this.#held += piece
    if (this.#streams && this.#count < this.#most && before < longestOpening) {
      const opened = StreamedCall.open(this.#held.slice(0, longestOpening), this.#names)
      if (opened !== undefined) {
        const given = this.#held.slice(opened.length)
        this.#held = ''
        this.#open = opened.call
        this.#give([{ name: opened.call.name, arguments: '' }], parts)
        return given
      }
    }
    const end = this.#scanner.push(piece)
    if (end === undefined) return ''
    const raw = this.#held.slice(0, before + end)
    this.#held = ''
    const calls = this.#read(callText(raw))
    this.#state = calls === undefined ? 'text' : 'bare'
    if (calls === undefined) say(raw, parts)
    else this.#give(calls, parts)
    return piece.slice(end)
  }

  #read(text: string): ToolCall[] | undefined {
    const name = Array.from(this.#names).find((name) => /^(\[ARGS\])?\s*\{/.test(rest(text, name)))
    if (name === undefined) return readToolCalls(text, this.#names)
    const json = rest(text, name).replace('[ARGS]', '')
    return readToolCalls(`{"name":${JSON.stringify(name)},"arguments":${json}}`, this.#names)
  }

  #give(calls: readonly ToolCall[], parts: AnswerPart[]): void {
    for (const call of calls) {
      if (this.#count++ < this.#most) parts.push({ type: 'call', call })
    }
  }
}

const rest = (text: string, name: string): string =>
  text.startsWith(name) ? text.slice(name.length) : ''

function say(text: string, parts: AnswerPart[]): void {
  if (text !== '') parts.push({ type: 'text', text })
}

/** Where the first of these marks is: looked for at once, so that none is sought behind the others. */
function firstOf(text: string, wanted: readonly string[]): number | undefined {
  if (wanted.length === 0) return undefined
  const pattern = wanted.map((mark) => mark.replace(/[[\]|]/g, '\\$&')).join('|')
  const at = text.search(new RegExp(pattern))
  return at < 0 ? undefined : at
}

/** A call without what stands around its JSON. */
const callText = (text: string): string =>
  text
    .trimStart()
    .replace(/^(\[TOOL_CALLS\]|<\|python_tag\|>|;|\s)+/, '')
    .replace(/^<tool_call>|<\/tool_call>\s*$/g, '')
    .replace(/^```\w*|```$/g, '')
    .trim()
