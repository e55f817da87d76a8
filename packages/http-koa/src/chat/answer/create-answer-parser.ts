import type { TokenLogprobs } from '@cllm/core'
import { isObject } from '../../fields/fields.js'
import type { EndEvent, Generation } from '../../request/generation.js'
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
  const { tools, format, mostCalls = Infinity, thinks, thinkingIsOpen, forced } = form
  const reader = new AnswerReader({
    format: thinks ? format : { ...format, thinking: undefined },
    tools: new Map(tools.map((tool) => [tool.function.name, tool])),
    mostCalls,
    thinkingIsOpen: thinks && thinkingIsOpen && format.thinking !== undefined,
  })
  return streams ? new StreamedCalls(reader, forced) : new WholeCalls(reader, forced)
}

/** What both parsers share: they count, and know answers that are held to calls. */
abstract class CallParser implements AnswerParser {
  reasoningTokens = 0
  readonly #reader: AnswerReader
  readonly #forced: readonly string[] | undefined
  #pushes = 0
  #hasCalls = false
  /** Text where there can be none but a call that was cut off. */
  #cut = ''

  /** @param forced - the tools of which the answer calls one and holds nothing else */
  constructor(reader: AnswerReader, forced?: readonly string[]) {
    this.#reader = reader
    this.#forced = forced
  }

  push(text: string): readonly AnswerPart[] {
    const parts = this.#take(this.#reader.push(text))
    this.#pushes++
    if (parts.some(({ type }) => type === 'reasoning')) this.reasoningTokens = this.#pushes
    return parts
  }

  end(): readonly AnswerPart[] {
    const parts = this.#take(this.#reader.end())
    const [only] = this.#forced ?? []
    const isNamed = only !== undefined && this.#forced?.length === 1
    if (!isNamed || this.#hasCalls || this.#cut.trim() === '') return parts
    return [...parts, { type: 'call', call: { name: only, arguments: '' } }]
  }

  /** The parts to show of those that were read. */
  protected abstract shown(parts: readonly ReadPart[], isForced: boolean): readonly AnswerPart[]

  #take(read: readonly ReadPart[]): readonly AnswerPart[] {
    const isForced = this.#forced !== undefined
    const parts = this.shown(read, isForced)
    if (!isForced) return parts
    return parts.filter((part) => {
      if (part.type === 'call') this.#hasCalls = true
      if (part.type === 'text') this.#cut += part.text
      return part.type !== 'text'
    })
  }
}

/** Gives arguments as they come: then what breaks off, or is no JSON, shows as such. */
class StreamedCalls extends CallParser {
  protected shown(parts: readonly ReadPart[]): readonly AnswerPart[] {
    return parts.filter(isShown)
  }
}

const isShown = (part: ReadPart): part is AnswerPart =>
  part.type !== 'call-end' && part.type !== 'dropped'

/**
 * Gives whole calls. One that breaks off, or whose arguments are no JSON object, becomes text; in an answer
 * that is held to calls it is a call with what there is of its arguments.
 */
class WholeCalls extends CallParser {
  #call: ToolCall | undefined
  /** Whether the last call is text now: then so is what belongs to it. */
  #isBroken = false

  protected shown(parts: readonly ReadPart[], isForced: boolean): readonly AnswerPart[] {
    return parts.flatMap((part) => this.#join(part, isForced))
  }

  #join(part: ReadPart, isForced: boolean): AnswerPart[] {
    switch (part.type) {
      case 'call':
        this.#call = part.call
        return []
      case 'arguments':
        if (this.#call !== undefined) {
          this.#call = { ...this.#call, arguments: this.#call.arguments + part.text }
        }
        return []
      case 'call-end': {
        const call = this.#call
        this.#call = undefined
        const whole = call !== undefined && part.isWhole ? objectText(call.arguments) : undefined
        const given = whole ?? (isForced ? call?.arguments : undefined)
        if (call !== undefined && given !== undefined) {
          this.#isBroken = false
          return [{ type: 'call', call: { ...call, arguments: given } }]
        }
        this.#isBroken = true
        return [{ type: 'text', text: part.raw }]
      }
      case 'dropped':
        return this.#isBroken ? [{ type: 'text', text: part.text }] : []
      default:
        this.#isBroken = false
        return [part]
    }
  }
}

/** A JSON object without white space between its parts; undefined for other texts. */
function objectText(text: string): string | undefined {
  try {
    const value: unknown = JSON.parse(text)
    return isObject(value) ? JSON.stringify(value) : undefined
  } catch {
    return undefined
  }
}

/** A whole answer. */
export interface CollectedAnswer {
  readonly content: string
  readonly reasoning: string
  readonly calls: readonly ToolCall[]
  /** The logprobs of all tokens, if requested. */
  readonly logprobs: readonly TokenLogprobs[]
  readonly reasoningTokens: number
  readonly end: EndEvent
}

/** Waits for a whole answer and splits it into parts. */
export async function collectAnswer(
  { events }: Generation,
  form: AnswerForm,
): Promise<CollectedAnswer> {
  const parser = createAnswerParser(form)
  const parts: AnswerPart[] = []
  const logprobs: TokenLogprobs[] = []
  let end: EndEvent | undefined
  for await (const event of events) {
    for (const part of parser.push(event.text)) parts.push(part)
    if (event.type === 'end') end = event
    else if (event.type === 'token' && event.logprobs !== undefined) logprobs.push(event.logprobs)
  }
  for (const part of parser.end()) parts.push(part)
  const textOf = (type: AnswerPart['type']) =>
    parts.map((part) => (part.type === type && 'text' in part ? part.text : '')).join('')
  return {
    content: textOf('text'),
    reasoning: textOf('reasoning'),
    calls: parts.flatMap((part) => (part.type === 'call' ? [part.call] : [])),
    logprobs,
    reasoningTokens: parser.reasoningTokens,
    end: end!,
  }
}
