import { possibleStart } from '../answer-part.js'
import { lengthAt, matchMark } from '../answer-marks.js'
import { constants } from './read-literal.js'
import { anyText, type ArgumentMarks, argumentName } from '../../format/chat-format.js'
import { isObject, parsedJson, type JsonObject } from '../../../fields/fields.js'

/** The progress of a call by a piece of text. */
export interface CallProgress {
  /** More of the arguments, as JSON. */
  readonly text: string
  /** The text behind the call, once it has ended. */
  readonly rest?: string
}

/** Reads the arguments of one call, which arrive in pieces. */
export interface CallReader {
  push(piece: string): CallProgress
  /** Called at the end of the answer. */
  end(): CallProgress
  /** Whether the call is complete. */
  readonly isWhole: boolean
}

/** Reads arguments that are a JSON object; if that is inside another object, reads to the end of the outer one. */
export class JsonArguments implements CallReader {
  readonly #arguments = new JsonScanner()
  readonly #around: JsonScanner | undefined
  #isOver = false
  isWhole = false

  /** @param before - the beginning of the object around the arguments, up to them */
  constructor(before?: string) {
    if (before === undefined) return
    this.#around = new JsonScanner()
    this.#around.push(before)
  }

  push(piece: string): CallProgress {
    if (this.#isOver) return this.#close(piece, '')
    const end = this.#arguments.push(piece)
    const text = piece.slice(0, end ?? piece.length)
    this.#around?.push(text)
    if (end === undefined) return { text }
    this.#isOver = true
    return this.#close(piece.slice(end), text)
  }

  end(): CallProgress {
    return { text: '', rest: '' }
  }

  #close(piece: string, text: string): CallProgress {
    const end = this.#around === undefined ? 0 : this.#around.push(piece)
    if (end === undefined) return { text }
    this.isWhole = true
    return { text, rest: piece.slice(end) }
  }
}

/** Finds the end of a JSON object or array that arrives in pieces, beginning with its bracket. */
export class JsonScanner {
  #depth = 0
  #inString = false
  #escaped = false

  /** The index in this piece behind its end; undefined: it goes on. */
  push(text: string): number | undefined {
    for (let index = 0; index < text.length; index++) {
      const character = text[index]
      if (this.#escaped) this.#escaped = false
      else if (this.#inString) {
        if (character === '\\') this.#escaped = true
        else if (character === '"') this.#inString = false
      } else if (character === '"') this.#inString = true
      else if (character === '{' || character === '[') this.#depth++
      else if ((character === '}' || character === ']') && --this.#depth <= 0) return index + 1
    }
    return undefined
  }
}

/** Whether a schema allows texts and nothing else. */
function takesOnlyText(schema: unknown): boolean {
  if (!isObject(schema)) return false
  const { type, enum: values, anyOf, oneOf } = schema
  if (type !== undefined) return type === 'string'
  if (Array.isArray(values)) return values.every((value) => typeof value === 'string')
  const kinds = anyOf ?? oneOf
  return Array.isArray(kinds) && kinds.length > 0 && kinds.every(takesOnlyText)
}

/**
 * The JSON of a value, where models write texts without quotes.
 *
 * @param isTyped - whether the model has marked it as something else than a text
 */
function argumentJson(text: string, schema: unknown, isTyped = false): string {
  const trimmed = text.trim()
  if (!isTyped && takesOnlyText(schema)) return JSON.stringify(text)
  if (Object.hasOwn(constants, trimmed)) return constants[trimmed]!
  const value = parsedJson(trimmed)
  // a value in quotes is a text that includes them, unless its type is known
  const isWritten = value === undefined || (typeof value === 'string' && !isTyped)
  return isWritten ? JSON.stringify(text) : trimmed
}

/** The schemas of a tool's arguments, by name. */
export function argumentSchemas(parameters: unknown): JsonObject {
  const properties = isObject(parameters) ? parameters['properties'] : undefined
  return isObject(properties) ? properties : {}
}

/** An argument whose name was read. */
interface Argument {
  readonly name: string
  /** The mark that ends its value. */
  close: string
  readonly isText: boolean
  /** Whether the mark before its value names the value's type. */
  readonly isTyped: boolean
  /** Marks that may still come before its value. */
  readonly leading: string[]
}

/** Reads arguments that follow each other, each between marks, and returns them as JSON while they arrive. */
export class TaggedArguments implements CallReader {
  /** Unread text. */
  #held = ''
  /** JSON that was not returned yet. */
  #json = '{'
  #count = 0
  /** The argument whose value is being read; undefined between two arguments. */
  #argument: Argument | undefined
  #isOver = false
  isWhole = false

  /**
   * @param schemas - the schemas of the arguments, by name
   * @param closings - marks that may follow the last argument
   */
  constructor(
    private readonly marks: ArgumentMarks,
    private readonly schemas: JsonObject,
    private readonly closings: readonly string[],
  ) {}

  push(piece: string): CallProgress {
    this.#held += piece
    this.#readAll(false)
    return this.#progress()
  }

  end(): CallProgress {
    this.#readAll(true)
    if (this.#argument === undefined) this.#finish()
    else {
      this.#json += this.#argument.isText ? escaped(this.#held) : this.#held
      this.#held = ''
    }
    this.#isOver = true
    return this.#progress()
  }

  #progress(): CallProgress {
    const text = this.#json
    this.#json = ''
    return this.#isOver ? { text, rest: this.#held } : { text }
  }

  /** Reads as far as the text is certain; with `isLast` to its end. */
  #readAll(isLast: boolean): void {
    while (
      this.#argument === undefined ? this.#readName(isLast) : this.#readValue(this.#argument)
    ) {
      // each call reads the next element
    }
  }

  /** Reads up to a value; true if there is one. */
  #readName(isLast: boolean): boolean {
    if (this.#isOver) return false
    const text = this.#held.trimStart()
    const { open, value } = this.marks
    const mayBe = (mark: string): boolean => !isLast && mark.startsWith(text)
    const ends = this.closings.some((closing) => text.startsWith(closing))
    if (!ends && mayBe(open)) return false
    if (ends || !text.startsWith(open)) return this.#finish()
    // this may be the beginning of a mark that ends the call
    if (this.closings.some(mayBe)) return false
    const [before = '', after] = value.split(anyText)
    const at = text.indexOf(before.trimEnd(), open.length + 1)
    const match = at < 0 ? 'maybe' : matchMark(value, text, at)
    if (match === 'no') return this.#finish()
    if (match === 'maybe') return isLast || text.length > longestName ? this.#finish() : false
    const name = text.slice(open.length, at)
    const type =
      after === undefined ? undefined : text.slice(at + before.length, match.end - after.length)
    const isTyped = type !== undefined
    const isText = isTyped ? type === this.marks.textType : takesOnlyText(this.schemas[name])
    this.#held = text.slice(match.end)
    this.#json += `${this.#count++ === 0 ? '' : ', '}${JSON.stringify(name)}: ${isText ? '"' : ''}`
    const close = this.marks.close.replaceAll(argumentName, name)
    this.#argument = { name, close, isText, isTyped, leading: [this.marks.before, cdata] }
    return true
  }

  /** Ends the arguments; false, as no other one follows. */
  #finish(): false {
    if (!this.#isOver) this.#json += '}'
    this.#isOver = this.isWhole = true
    return false
  }

  /** Reads a value; true at its end. */
  #readValue(argument: Argument): boolean {
    if (!this.#begins(argument)) return false
    const { after } = this.marks
    const { name, close, isText, isTyped } = argument
    const at = this.#held.indexOf(close)
    if (at < 0) {
      if (!isText) return false
      const certain = this.#held.length - possibleStart(this.#held, [after + close, close])
      this.#json += escaped(this.#held.slice(0, certain))
      this.#held = this.#held.slice(certain)
      return false
    }
    const padded = this.#held.slice(0, at)
    const text = after !== '' && padded.endsWith(after) ? padded.slice(0, -after.length) : padded
    this.#json += isText ? `${escaped(text)}"` : argumentJson(text, this.schemas[name], isTyped)
    this.#held = this.#held.slice(at + close.length)
    this.#argument = undefined
    return true
  }

  /** Skips marks before a value; false while more of them may come. */
  #begins(argument: Argument): boolean {
    for (let [mark] = argument.leading; mark !== undefined; [mark] = argument.leading) {
      const length = lengthAt(this.#held, mark)
      if (length === 'maybe') return false
      argument.leading.shift()
      if (length === 'no') continue
      this.#held = this.#held.slice(length)
      if (mark === cdata) argument.close = `]]>${argument.close}`
    }
    return true
  }
}

/** The most characters of an argument's name; beyond that it is no argument. */
const longestName = 1024

/** The beginning of the section that some models put around texts with marks. */
const cdata = '<![CDATA['

const escaped = (text: string): string => JSON.stringify(text).slice(1, -1)
