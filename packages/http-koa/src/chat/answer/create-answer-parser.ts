import { objectText } from '../../fields/fields.js'
import { collect, type Collected, type Generation } from '../../request/generation.js'
import type { ChatFormat, ToolDefinition } from '../format/chat-format.js'
import type { AnswerParser, AnswerPart, ReadPart, ToolCall } from './answer-part.js'
import { AnswerReader } from './answer-reader.js'

/** The form of an answer: what it may contain. */
export interface AnswerForm {
  readonly tools: readonly ToolDefinition[]
  /** Default: any number. */
  readonly mostCalls?: number
  readonly format: Pick<ChatFormat, 'own' | 'calls' | 'thinking' | 'frame'>
  /** Whether the answer may begin with reasoning. */
  readonly thinks: boolean
  /** Whether the prompt already opens the reasoning. */
  readonly thinkingIsOpen: boolean
  /** The tools of which the answer must call one, and contain nothing else; default: any answer. */
  readonly forced?: readonly string[]
}

/**
 * A parser for one answer of this form.
 *
 * @param streams - whether the arguments of tool calls are streamed, instead of whole calls
 */
export function createAnswerParser(form: AnswerForm, streams = false): AnswerParser {
  const { tools, format, mostCalls = Infinity, forced } = form
  const thinking = form.thinks ? format.thinking : undefined
  const { open, closings } = format.frame
  const isPlain = tools.length === 0 && open === '' && closings.length === 0
  if (isPlain && thinking === undefined && forced === undefined) return plainText
  const reader = new AnswerReader({
    format: { ...format, thinking },
    tools: new Map(tools.map((tool) => [tool.function.name, tool])),
    mostCalls,
    thinkingIsOpen: form.thinkingIsOpen && thinking !== undefined,
  })
  return new CallParser(reader, streams, forced)
}

/** The parser of answers that can only be text. */
const plainText: AnswerParser = {
  push: (text) => (text === '' ? [] : [{ type: 'text', text }]),
  end: () => [],
  reasoningTokens: 0,
}

/**
 * Counts the reasoning tokens, and returns calls as they arrive or as a whole. Calls that are streamed show truncated or
 * invalid arguments as they are. A whole call that is truncated, or whose arguments are no JSON object, becomes text; in
 * an answer that must be a call, it is returned with the arguments so far.
 */
class CallParser implements AnswerParser {
  reasoningTokens = 0
  #pushes = 0
  #hasCalls = false
  /** In an answer that must be a call: the text of a truncated one. */
  #cut = ''
  /** The part of a call that was read so far, if calls are returned as a whole. */
  #call: ToolCall | undefined
  /** Whether the last call became text, so that the rest of it is text, too. */
  #isBroken = false

  /** @param forced - the tools of which the answer must call one, and contain nothing else */
  constructor(
    private readonly reader: AnswerReader,
    private readonly streams: boolean,
    private readonly forced: readonly string[] | undefined,
  ) {}

  push(text: string): readonly AnswerPart[] {
    const parts = this.#take(this.reader.push(text))
    this.#pushes++
    if (parts.some(({ type }) => type === 'reasoning')) this.reasoningTokens = this.#pushes
    return parts
  }

  end(): readonly AnswerPart[] {
    const parts = this.#take(this.reader.end())
    const [only] = this.forced ?? []
    const isNamed = only !== undefined && this.forced?.length === 1
    if (!isNamed || this.#hasCalls || this.#cut.trim() === '') return parts
    return [...parts, { type: 'call', call: { name: only, arguments: '' } }]
  }

  #take(read: readonly ReadPart[]): readonly AnswerPart[] {
    const parts: AnswerPart[] = []
    for (const part of read) {
      const shown = this.streams ? part : this.#join(part)
      if (shown === undefined || shown.type === 'call-end' || shown.type === 'dropped') continue
      if (shown.type === 'call') this.#hasCalls = true
      if (shown.type !== 'text' || this.forced === undefined) parts.push(shown)
      else this.#cut += shown.text
    }
    return parts
  }

  /** The part to return, if calls are returned as a whole. */
  #join(part: ReadPart): ReadPart | undefined {
    if (part.type === 'call') {
      this.#call = part.call
      return undefined
    }
    if (part.type === 'arguments') {
      const call = this.#call
      if (call) this.#call = { ...call, arguments: call.arguments + part.text }
      return undefined
    }
    if (part.type === 'dropped') {
      return this.#isBroken ? { type: 'text', text: part.text } : undefined
    }
    this.#isBroken = false
    if (part.type !== 'call-end') return part
    const call = this.#call
    this.#call = undefined
    const whole = call !== undefined && part.isWhole ? objectText(call.arguments) : undefined
    const given = whole ?? (this.forced === undefined ? undefined : call?.arguments)
    if (call !== undefined && given !== undefined) {
      return { type: 'call', call: { ...call, arguments: given } }
    }
    this.#isBroken = true
    return { type: 'text', text: part.raw }
  }
}

/** A whole answer. Its tokens and log probabilities are those of all parts together. */
export interface CollectedAnswer extends Omit<Collected, 'text'> {
  /** The parts in their order; consecutive texts are one part, and so is consecutive reasoning. */
  readonly parts: readonly AnswerPart[]
  readonly content: string
  readonly reasoning: string
  readonly calls: readonly ToolCall[]
  readonly reasoningTokens: number
}

/** Waits for a whole answer and splits it into parts. */
export async function collectAnswer(
  generation: Generation,
  form: AnswerForm,
): Promise<CollectedAnswer> {
  const parser = createAnswerParser(form)
  const parts: AnswerPart[] = []
  const take = (text?: string): void => {
    for (const part of text === undefined ? parser.end() : parser.push(text)) {
      const last = parts.at(-1)
      if (part.type === 'call' || part.type !== last?.type) parts.push(part)
      else parts[parts.length - 1] = { ...part, text: last.text + part.text }
    }
  }
  const { text: _, ...collected } = await collect(generation, take)
  take()
  const calls: ToolCall[] = []
  let [content, reasoning] = ['', '']
  for (const part of parts) {
    if (part.type === 'text') content += part.text
    else if (part.type === 'reasoning') reasoning += part.text
    else if (part.type === 'call') calls.push(part.call)
  }
  return { ...collected, parts, content, reasoning, calls, reasoningTokens: parser.reasoningTokens }
}
