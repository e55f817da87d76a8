import { objectText } from '../../fields/fields.js'
import { collect, type Collected, type Generation } from '../../request/generation.js'
import type { ChatFormat, ToolDefinition } from '../format/chat-format.js'
import type { AnswerParser, AnswerPart, ReadPart, ToolCall } from './answer-part.js'
import { AnswerReader } from './answer-reader.js'

/** What an answer may hold. */
export interface AnswerForm {
  readonly tools: readonly ToolDefinition[]
  /** Default: any number. */
  readonly mostCalls?: number
  readonly format: Pick<ChatFormat, 'own' | 'calls' | 'thinking' | 'frame'>
  /** Whether the answer may begin with reasoning. */
  readonly thinks: boolean
  /** Whether the prompt already opens the reasoning. */
  readonly thinkingIsOpen: boolean
  /** The tools of which the answer calls one and holds nothing else; default: it may hold anything. */
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

/** Of answers in which there is nothing to look for. */
const plainText: AnswerParser = {
  push: (text) => (text === '' ? [] : [{ type: 'text', text }]),
  end: () => [],
  reasoningTokens: 0,
}

/**
 * Counts the tokens of reasoning, and gives calls as they come or whole. As they come, what breaks off, or
 * is no JSON, shows as such. Of whole ones, one that breaks off, or whose arguments are no JSON object,
 * becomes text. In an answer that is held to calls it is a call with what there is of its arguments.
 */
class CallParser implements AnswerParser {
  reasoningTokens = 0
  #pushes = 0
  #hasCalls = false
  /** Text where there can be none but a call that was cut off. */
  #cut = ''
  /** What there is of a call that is given whole. */
  #call: ToolCall | undefined
  /** Whether the last call is text now: then so is what belongs to it. */
  #isBroken = false

  /** @param forced - the tools of which the answer calls one and holds nothing else */
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

  /** What there is to show with a part, where calls are given whole. */
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

/** A whole answer; its tokens and their logprobs, if requested, are those of all its parts. */
export interface CollectedAnswer extends Omit<Collected, 'text'> {
  /** In the order in which they came; texts that follow one another are one part, and so are thoughts. */
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
