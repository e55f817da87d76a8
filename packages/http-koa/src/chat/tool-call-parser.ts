import { type AnswerParser, type AnswerPart, possibleStart, type ToolCall } from './answer-part.js'
import { endOfJson } from './json-scanner.js'
import { readToolCalls } from './read-tool-calls.js'
import { StreamedCall } from './streamed-call.js'

const hermes = '<tool_call>'
const hermesEnd = '</tool_call>'
/** Each begins calls in JSON. */
const marks = [hermes, '[TOOL_CALLS]', '<|python_tag|>']

/** Only behind `<tool_call>`, or only where the answer is JSON and nothing else. */
export type CallOpening = 'marked' | 'bare'

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
  #count = 0
  /** `bare`: nothing but white space has come, or a call has just ended. */
  #state: 'bare' | 'text' | 'call' = 'bare'
  #held = ''
  /** The one whose arguments come. */
  #open: StreamedCall | undefined

  constructor(names: Iterable<string>, { most = Infinity, streams, begin }: ToolCallOptions) {
    this.#names = new Set(names)
    this.#most = most
    this.#streams = streams
    this.#begins = begin
    this.#marks = begin === undefined ? marks : begin === 'marked' ? [hermes] : []
  }

  push(text: string): readonly AnswerPart[] {
    this.#held += text
    const parts: AnswerPart[] = []
    while (this.#advance(parts));
    return parts
  }

  end(): readonly AnswerPart[] {
    const parts: AnswerPart[] = []
    while (this.#advance(parts));
    if (this.#open !== undefined) return parts
    const text = this.#held
    this.#held = ''
    const calls = this.#state === 'text' ? undefined : this.#read(callText(text))
    if (calls !== undefined) this.#give(calls, parts)
    else if (this.#count === 0 || text.trim() !== '') say(text, parts)
    return parts
  }

  /** Takes one more thing from what is held; false when more text is needed. */
  #advance(parts: AnswerPart[]): boolean {
    if (this.#open !== undefined) return this.#goOn(this.#open, parts)
    switch (this.#state) {
      case 'bare':
        return this.#begin(parts)
      case 'text':
        return this.#skipText(parts)
      case 'call':
        return this.#readCall(parts)
    }
  }

  #begin(parts: AnswerPart[]): boolean {
    const begin = this.#held.trimStart()
    if (begin === '') return false
    const isCall = this.#isCall(begin)
    if (isCall) this.#state = 'call'
    else if (this.#mayBegin(begin)) return false
    else {
      if (this.#count > 0) this.#held = begin
      this.#state = 'text'
      return this.#skipText(parts)
    }
    return true
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

  #mayBegin(begin: string): boolean {
    if (this.#begins !== undefined) return this.#marks.some((mark) => mark.startsWith(begin))
    const starts = [...marks, '```json', ...Array.from(this.#names, (name) => `${name}[ARGS]{`)]
    return starts.some((start) => start.startsWith(begin))
  }

  #startsWithName(begin: string): boolean {
    return Array.from(this.#names).some((name) => /^(\[ARGS\])?\s*\{/.test(rest(begin, name)))
  }

  #skipText(parts: AnswerPart[]): boolean {
    const found = this.#marks.map((mark) => this.#held.indexOf(mark)).filter((index) => index >= 0)
    const at = Math.min(...found)
    const certain = Number.isFinite(at)
      ? at
      : this.#held.length - possibleStart(this.#held, this.#marks)
    say(this.#held.slice(0, certain), parts)
    this.#held = this.#held.slice(certain)
    if (!Number.isFinite(at)) return false
    this.#state = 'call'
    return true
  }

  #goOn(open: StreamedCall, parts: AnswerPart[]): boolean {
    const { text, rest } = open.push(this.#held)
    if (text !== '') parts.push({ type: 'arguments', text })
    this.#held = rest ?? ''
    if (rest === undefined) return false
    this.#open = undefined
    this.#state = 'bare'
    return true
  }

  #readCall(parts: AnswerPart[]): boolean {
    const opened =
      this.#streams && this.#count < this.#most
        ? StreamedCall.open(this.#held, this.#names)
        : undefined
    if (opened !== undefined) {
      this.#open = opened.call
      this.#held = opened.rest
      this.#give([{ name: opened.call.name, arguments: '' }], parts)
      return true
    }
    const end = endOfCall(this.#held)
    if (end === undefined) return false
    const raw = this.#held.slice(0, end)
    const calls = this.#read(callText(raw))
    this.#held = this.#held.slice(end)
    this.#state = calls === undefined ? 'text' : 'bare'
    if (calls === undefined) say(raw, parts)
    else this.#give(calls, parts)
    return true
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

/** Where the call at the beginning of a text ends, or undefined while it goes on. */
function endOfCall(held: string): number | undefined {
  const text = held.trimStart()
  const end = endOfTrimmedCall(text)
  return end === undefined ? undefined : held.length - text.length + end
}

function endOfTrimmedCall(text: string): number | undefined {
  if (text.startsWith(hermes)) {
    const at = text.indexOf(hermesEnd)
    return at < 0 ? undefined : at + hermesEnd.length
  }
  if (text.startsWith('```')) {
    const at = text.indexOf('```', 3)
    return at < 0 ? undefined : at + 3
  }
  const from = /^(\[TOOL_CALLS\]|<\|python_tag\|>|;|\s)*/.exec(text)?.[0].length ?? 0
  const start = text.slice(from).replace('[ARGS]', '      ').search(/[{[]/)
  if (start < 0) return undefined
  const end = endOfJson(text.slice(from + start))
  return end === undefined ? undefined : from + start + end
}

/** A call without what stands around its JSON. */
const callText = (text: string): string =>
  text
    .trimStart()
    .replace(/^(\[TOOL_CALLS\]|<\|python_tag\|>|;|\s)+/, '')
    .replace(/^<tool_call>|<\/tool_call>\s*$/g, '')
    .replace(/^```\w*|```$/g, '')
    .trim()
