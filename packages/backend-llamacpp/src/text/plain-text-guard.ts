import { CllmError, type TokenId } from '@cllm/core'
import { escape, type RenderedTemplate, type TextParts } from './tokenizer.js'
import { type ControlToken, TokenAttribute, type Vocabulary } from './vocabulary.js'

/** The characters that marks are taken from: they mean nothing, so that hardly a text has them. */
const privateUse = { first: 0xe000, last: 0xf8ff, each: /[\ue000-\uf8ff]/g }

/** What control tokens strip beside them. */
const whiteSpace = ' \t\n\v\f\r'

/** What was hidden, and how to bring it back. */
interface HiddenText<T> {
  readonly value: T
  /** Empty when there was nothing to hide. */
  readonly texts: readonly string[]
  /** Stands before and after the number of a hidden text; occurs nowhere else. */
  readonly mark: string
}

/**
 * Keeps texts such as `<|im_end|>` that clients write from becoming control tokens: they are
 * replaced by marks before the chat template runs and come back as plain text when its result is
 * tokenized.
 */
export class PlainTextGuard {
  readonly #pattern: RegExp | undefined
  readonly #tokens = new Map<string, ControlToken>()

  constructor(
    private readonly parts: TextParts,
    vocabulary: Vocabulary,
  ) {
    for (const token of vocabulary.controlTokens) {
      if (token.text !== '') this.#tokens.set(token.text, token)
    }
    // llama.cpp looks for the longest first
    const texts = Array.from(this.#tokens.keys()).sort((a, b) => b.length - a.length)
    if (texts.length > 0) this.#pattern = new RegExp(`(${texts.map(escape).join('|')})`, 'g')
  }

  /**
   * Replaces the texts of control tokens in all strings of a value.
   * @throws CllmError `invalid_request` when there are some and the value has all 6,400 characters for
   * private use, one of which had to mark them
   */
  hide<T>(value: T): HiddenText<T> {
    const texts: string[] = []
    const pattern = this.#pattern
    if (pattern === undefined) return { value, texts, mark: '' }
    let mark = ''
    const hideText = (text: string) =>
      text.replace(pattern, (found) => {
        if (mark === '') mark = unusedCharacter(value)
        return `${mark}${texts.push(found) - 1}${mark}`
      })
    return { value: mapStrings(value, hideText) as T, texts, mark }
  }

  /**
   * A rendered text with the hidden ones put back, and its tokens, a part at a time: control tokens where
   * the template wrote them, only there.
   */
  show(text: string, hidden: HiddenText<unknown>): RenderedTemplate {
    const pattern = this.#pattern
    if (hidden.texts.length === 0 || pattern === undefined) {
      return { text, tokens: this.parts.tokenize(text, true) }
    }
    return { text: restored(text, hidden), tokens: this.#tokenize(text.split(pattern), hidden) }
  }

  *#tokenize(parts: readonly string[], hidden: HiddenText<unknown>): Generator<TokenId[], void> {
    for (const [index, part] of parts.entries()) {
      const control = index % 2 === 1 ? this.#tokens.get(part) : undefined
      if (control === undefined) {
        yield* this.parts.tokenize(restored(this.#strip(parts, index), hidden), false)
      } else {
        yield [control.id]
      }
    }
  }

  /** Some control tokens take the white space beside them. */
  #strip(parts: readonly string[], index: number): string {
    let text = parts[index] ?? ''
    const before = this.#tokens.get(parts[index - 1] ?? '')
    const after = this.#tokens.get(parts[index + 1] ?? '')
    if (((before?.attributes ?? 0) & TokenAttribute.StripsRight) !== 0) {
      text = text.replace(/^[ \t\n\v\f\r]+/, '')
    }
    if (((after?.attributes ?? 0) & TokenAttribute.StripsLeft) !== 0) {
      // no pattern: one that ends in $ takes quadratic time where there are many spaces
      let end = text.length
      while (end > 0 && whiteSpace.includes(text[end - 1]!)) end--
      text = text.slice(0, end)
    }
    return text
  }
}

function restored(text: string, { texts, mark }: HiddenText<unknown>): string {
  return text.replace(new RegExp(`${mark}(\\d+)${mark}`, 'g'), (_, index: string) => {
    return texts[Number(index)] ?? ''
  })
}

function mapStrings(value: unknown, map: (text: string) => string): unknown {
  if (typeof value === 'string') return map(value)
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) {
    const items: unknown[] = []
    for (const item of value) items.push(mapStrings(item, map))
    return items
  }
  const entries: [string, unknown][] = []
  for (const [key, item] of Object.entries(value)) entries.push([map(key), mapStrings(item, map)])
  return Object.fromEntries(entries)
}

/**
 * A character for private use that is in none of the strings of a value; one pass over them, whatever is in them.
 * @throws CllmError `invalid_request` when they have all of these characters
 */
export function unusedCharacter(value: unknown): string {
  const used = new Set<string>()
  mapStrings(value, (text) => {
    for (const [character] of text.matchAll(privateUse.each)) used.add(character)
    return text
  })
  for (let code = privateUse.first; code <= privateUse.last; code++) {
    const character = String.fromCharCode(code)
    if (!used.has(character)) return character
  }
  const message =
    'messages that hold a control token as text must leave out one character for private use ' +
    '(U+E000 to U+F8FF): these have them all'
  throw new CllmError('invalid_request', message, { details: { field: 'messages' } })
}
