import type { AnswerParser, AnswerPart, ToolCall } from './answer-part.js'
import type { AnswerReader } from './answer-reader.js'
import type { ReadPart } from './read-part.js'
import { isObject } from '../../fields/is-object.js'

/** Gives arguments as they come: then what breaks off, or is no JSON, shows as such. */
export class StreamedCalls implements AnswerParser {
  readonly #reader: AnswerReader

  constructor(reader: AnswerReader) {
    this.#reader = reader
  }

  push(text: string): readonly AnswerPart[] {
    return this.#reader.push(text).filter(isShown)
  }

  end(): readonly AnswerPart[] {
    return this.#reader.end().filter(isShown)
  }
}

const isShown = (part: ReadPart): part is AnswerPart =>
  part.type !== 'call-end' && part.type !== 'dropped'

/** Gives whole calls; one that breaks off, or whose arguments are no JSON object, becomes text. */
export class WholeCalls implements AnswerParser {
  readonly #reader: AnswerReader
  #call: ToolCall | undefined
  /** Whether the last call is text now: then so is what belongs to it. */
  #isBroken = false

  constructor(reader: AnswerReader) {
    this.#reader = reader
  }

  push(text: string): readonly AnswerPart[] {
    return this.#reader.push(text).flatMap((part) => this.#join(part))
  }

  end(): readonly AnswerPart[] {
    return this.#reader.end().flatMap((part) => this.#join(part))
  }

  #join(part: ReadPart): AnswerPart[] {
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
        const given = call !== undefined && part.isWhole ? objectText(call.arguments) : undefined
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
