import { CllmError, type TokenId } from '@cllm/core'
import { escape, type RenderedTemplate, type TextParts } from './tokenizer.js'
import { type ControlToken, TokenAttribute, type Vocabulary } from './vocabulary.js'

/** The characters for marks: those for private use, which hardly any text has. */
const privateUse = { first: 0xe000, last: 0xf8ff, each: /[\ue000-\uf8ff]/g }

/** The white space that some control tokens strip beside them. */
const whiteSpace = ' \t\n\v\f\r'

/** A value with hidden texts, and how to restore them. */
interface HiddenText<T> {
  readonly value: T
  /** The hidden texts. */
  readonly texts: readonly string[]
  /** The character before and after the number of a hidden text; it occurs nowhere else. */
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
    // the longest first, as llama.cpp searches for them
    const texts = Array.from(this.#tokens.keys()).sort((a, b) => b.length - a.length)
    if (texts.length > 0) this.#pattern = new RegExp(`(${texts.map(escape).join('|')})`, 'g')
  }

  /**
   * Replaces the texts of control tokens in all strings of a value.
   * @throws CllmError `invalid_request` if there are some and the value uses all 6,400 characters for private use, so
   * that none is left to mark them
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
   * A rendered text with the hidden texts restored, and its tokens in parts, with control tokens only where the
   * template wrote them.
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

  /** Strips white space beside control tokens that take it. */
  #strip(parts: readonly string[], index: number): string {
    let text = parts[index] ?? ''
    const before = this.#tokens.get(parts[index - 1] ?? '')
    const after = this.#tokens.get(parts[index + 1] ?? '')
    if (((before?.attributes ?? 0) & TokenAttribute.StripsRight) !== 0) {
      text = text.replace(/^[ \t\n\v\f\r]+/, '')
    }
    if (((after?.attributes ?? 0) & TokenAttribute.StripsLeft) !== 0) {
      // no pattern, as one that ends in $ takes quadratic time for many spaces
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
 * A character for private use that occurs in none of the strings of a value, found in one pass.
 * @throws CllmError `invalid_request` if all of these characters occur
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
