import { attempt } from '@cllm/core'
import { parsedJson } from '../../../fields/fields.js'

/** The JSON of Python's constants. */
export const constants: Readonly<Record<string, string>> = {
  True: 'true',
  False: 'false',
  None: 'null',
}

/**
 * The JSON of a dictionary or of keyword arguments at the beginning of a text, with unquoted keys, other quotes and
 * Python's constants. Undefined while it is incomplete.
 */
export function readLiteral(text: string, ends: '}' | ')', quotes: readonly string[]) {
  const reader = new LiteralReader(text, quotes)
  return attempt(() => ({ json: reader.members(ends), end: reader.at }))
}

class LiteralReader {
  at = 0

  constructor(
    private readonly text: string,
    private readonly quotes: readonly string[],
  ) {}

  /** Reads members from an opening bracket to the closing one. */
  members(ends: '}' | ')'): string {
    const members = this.#until(ends, () => {
      const key = this.#quote() ?? this.#word(/[^\s:=,{}()[\]]+/y)
      this.#skip(/\s*[:=]\s*/y, true)
      return `${JSON.stringify(key)}: ${this.#value()}`
    })
    return `{${members}}`
  }

  #value(): string {
    const text = this.#quote()
    if (text !== undefined) return JSON.stringify(text)
    const first = this.text[this.at]
    if (first === '{') return this.members('}')
    const ends = first === '[' ? ']' : first === '(' ? ')' : undefined
    if (ends !== undefined) return `[${this.#until(ends, () => this.#value())}]`
    const word = this.#word(/[^,{}()[\]]+/y).trim()
    if (Object.hasOwn(constants, word)) return constants[word]!
    return parsedJson(word) === undefined ? JSON.stringify(word) : word
  }

  /** Reads elements from an opening bracket to the closing one. */
  #until(ends: string, read: () => string): string {
    this.at++
    const items: string[] = []
    for (;;) {
      this.#skip(/[\s,]*/y)
      if (this.text[this.at] === ends) break
      items.push(read())
    }
    this.at++
    return items.join(', ')
  }

  /** Reads a quoted text, if there is one here. */
  #quote(): string | undefined {
    const quote = this.quotes.find((quote) => this.text.startsWith(quote, this.at))
    if (quote === undefined) return undefined
    const hasEscapes = quote.length === 1
    const start = (this.at += quote.length)
    while (!this.text.startsWith(quote, this.at)) {
      if (this.at >= this.text.length) throw new Error('it goes on')
      this.at += hasEscapes && this.text[this.at] === '\\' ? 2 : 1
    }
    const text = this.text.slice(start, this.at)
    this.at += quote.length
    return hasEscapes ? text.replace(escape, unescaped) : text
  }

  #word(pattern: RegExp): string {
    const start = this.at
    this.#skip(pattern, true)
    if (this.at >= this.text.length) throw new Error('it goes on')
    return this.text.slice(start, this.at)
  }

  #skip(pattern: RegExp, isNeeded = false): void {
    pattern.lastIndex = this.at
    const found = pattern.exec(this.text)?.[0] ?? ''
    if (found === '' && isNeeded) throw new Error('it is something else')
    this.at += found.length
  }
}

/** Python's: a character by its number, or any other behind a backslash. */
const escape = /\\(x[\da-fA-F]{2}|u[\da-fA-F]{4}|U00(?:0[\da-fA-F]|10)[\da-fA-F]{4}|[^])/g
const escapes: Readonly<Record<string, string>> = { n: '\n', t: '\t', r: '\r', b: '\b', f: '\f' }

const unescaped = (_: string, what: string): string =>
  what.length === 1 ? (escapes[what] ?? what) : String.fromCodePoint(parseInt(what.slice(1), 16))
