import type {
  ChatMessage,
  ChatRenderOptions,
  DecoderOptions,
  EncodeOptions,
  InfillTokens,
  RenderedChat,
  TokenDecoder,
  TokenId,
  Tokenizer,
} from '@cllm/core'
import type { NativeModel } from '../native/native-model.js'
import type { Vocabulary } from './vocabulary.js'

/** The usual length of a part in UTF-16 units: llama.cpp tokenizes it in a millisecond or two. */
const usualLength = 2048
/** The longest part, if the text cannot be cut before: ten milliseconds, and within the stack of llama.cpp's patterns. */
const longestPart = 8192
/** Behind a letter, each of these characters begins a new word for all pre-tokenizers, except that `'s` may belong to it. */
const separators = Array.from(' \n0123456789!"#$%&()*+,-./:;<=>?@[\\]^_`{|}~')
/** The same for East Asian punctuation. */
const otherSeparators = /(?<=\p{L})(?=[、。，！？；：…])/gu
const probe = 'The quick brown fox jumps over the lazy dog'
/** A character that occurs in no token together with others. */
const lone = '\ue000'

/**
 * Cuts long texts, so that tokenizing them can be spread over time: llama.cpp takes milliseconds per thousand
 * characters, and quadratic time for texts with many special tokens or repetitions of a character that is no token. A
 * text is cut where the parts have the same tokens as the whole: behind words, unless the vocabulary has tokens that
 * continue there, and before special tokens. If there is no such place within {@link longestPart} units, as in a long
 * number, it is cut anyway: the tokens still spell the text.
 */
export class TextParts {
  readonly #addsSpace: boolean
  /** Patterns for the places where texts can be cut, without and with special tokens. */
  readonly #places: { readonly plain?: RegExp; readonly special?: RegExp }
  /** The number of tokens of {@link lone}. */
  #lead: number | undefined

  constructor(
    private readonly model: NativeModel,
    vocabulary: Vocabulary,
  ) {
    this.#addsSpace = vocabulary.addsSpace
    this.#places = this.#holds() ? placesOf(vocabulary) : {}
  }

  /** The tokens of a text, in parts. */
  *tokenize(text: string, special: boolean): Generator<TokenId[], void> {
    for (let start = 0, end = 0; start < text.length; start = end) {
      const isShort = text.length - start < 2 * usualLength
      end = isShort ? text.length : this.#cut(text, start, special)
      const part = text.slice(start, end)
      if (start > 0) yield this.behind(part, special)
      else yield Array.from(this.model.tokenize(part, special))
    }
  }

  /** The tokens of a short text that follows another one. */
  behind(text: string, special = false): TokenId[] {
    if (!this.#addsSpace) return Array.from(this.model.tokenize(text, special))
    // The tokenizer puts a space before each text that does not begin with a special token, so this text needs another
    // one before it.
    this.#lead ??= this.model.tokenize(lone, false).length
    return Array.from(this.model.tokenize(lone + text, special).subarray(this.#lead))
  }

  /** The end of the part that begins here. */
  #cut(text: string, start: number, special: boolean): number {
    // The window begins one unit before the first possible place.
    const first = start + usualLength - 1
    const window = text.slice(first, start + longestPart)
    const at = placeIn(window, this.#places[special ? 'special' : 'plain'])
    if (at !== undefined) return first + at
    if (text.length - start <= longestPart) return text.length
    const other = placeIn(window, otherSeparators)
    if (other !== undefined) return first + other
    return isLow(text.charCodeAt(start + longestPart))
      ? start + longestPart - 1
      : start + longestPart
  }

  #holds(): boolean {
    const words = probe.split(' ')
    const parts = words.map((word, index) => (index > 0 && !this.#addsSpace ? ` ${word}` : word))
    const tokens = parts.flatMap((part) => [...this.model.tokenize(part, false)])
    return tokens.join() === this.model.tokenize(probe, false).join()
  }
}

/** Patterns of the places where texts can be cut. */
function placesOf({ joined, markStarts, controlTokens }: Vocabulary) {
  const free = separators.filter((character) => !joined.has(character))
  const words = free.length === 0 ? [] : [`(?<=\\p{L})(?=[${free.map(escape).join('')}])`]
  const marks = controlTokens
    .map(({ text }) => text)
    .filter((text) => markStarts.has(text.charAt(0)))
  const all = marks.length === 0 ? words : [...words, `(?=${marks.map(escape).join('|')})`]
  return {
    ...(words.length > 0 && { plain: new RegExp(words.join(''), 'gu') }),
    ...(all.length > 0 && { special: new RegExp(all.join('|'), 'gu') }),
  }
}

/** The first place to cut behind the window's first unit. */
function placeIn(window: string, pattern: RegExp | undefined): number | undefined {
  if (pattern === undefined) return undefined
  pattern.lastIndex = 1
  const at = pattern.exec(window)?.index
  return at === undefined || at === 0 ? undefined : at
}

const isLow = (unit: number): boolean => unit >= 0xdc00 && unit <= 0xdfff

/** Escapes a text for a pattern. */
export function escape(text: string): string {
  return text.replace(/[\\^$.*+?()[\]{}|/-]/g, '\\$&')
}

/** A rendered conversation, without a beginning-of-sequence token. */
export interface RenderedTemplate {
  readonly text: string
  /** The tokens, in parts. */
  readonly tokens: Iterable<TokenId[]>
}

/** Renders conversations with the model's chat template. */
interface ChatRenderer {
  render(messages: readonly ChatMessage[], options?: ChatRenderOptions): RenderedTemplate
}

/** llama.cpp's tokenizer with the vocabulary and chat template of the model's file. */
export class LlamaCppTokenizer implements Tokenizer {
  readonly vocabularySize: number
  readonly maxTokenBytes: number
  readonly infill?: InfillTokens

  constructor(
    private readonly parts: TextParts,
    private readonly vocabulary: Vocabulary,
    private readonly template: ChatRenderer,
  ) {
    this.vocabularySize = vocabulary.size
    this.maxTokenBytes = vocabulary.maxTokenBytes
    if (vocabulary.infill !== undefined) this.infill = vocabulary.infill
  }

  encode(text: string, options?: EncodeOptions): TokenId[] {
    return [...this.encodeInParts(text, options)].flat()
  }

  encodeInParts(
    text: string,
    { addBos = true, special = true }: EncodeOptions = {},
  ): Iterable<TokenId[]> {
    const parts = this.parts.tokenize(text, special)
    return addBos ? this.#withBos(parts) : parts
  }

  decode(tokens: readonly TokenId[]): string {
    return new Decoder(this.vocabulary).whole(tokens)
  }

  bytesOf(token: TokenId): Uint8Array {
    return this.vocabulary.bytes(token)
  }

  controlText(token: TokenId): string {
    return this.vocabulary.controlText(token)
  }

  createDecoder(before?: readonly TokenId[], options?: DecoderOptions): TokenDecoder {
    return new Decoder(this.vocabulary, before, options?.marks)
  }

  isEndOfGeneration(token: TokenId): boolean {
    return this.vocabulary.endOfGeneration.has(token)
  }

  renderChat(messages: readonly ChatMessage[], options?: ChatRenderOptions): RenderedChat {
    const { text, tokens } = this.template.render(messages, options)
    return { text, tokens: [...this.#withBos(tokens)].flat() }
  }

  renderChatInParts(
    messages: readonly ChatMessage[],
    options?: ChatRenderOptions,
  ): RenderedTemplate {
    const { text, tokens } = this.template.render(messages, options)
    return { text, tokens: this.#withBos(tokens) }
  }

  *#withBos(parts: Iterable<TokenId[]>): Generator<TokenId[], void> {
    const { bos } = this.vocabulary
    let isFirst = true
    for (const part of parts) {
      if (isFirst && bos !== undefined && part[0] !== bos) yield [bos]
      isFirst = false
      yield part
    }
    if (isFirst && bos !== undefined) yield [bos]
  }
}

const space = 0x20
/** The most tokens that an incomplete character spans. */
const overlap = 3

/**
 * Turns tokens into text, holding back incomplete characters. Bytes that are no UTF-8 become
 * U+FFFD.
 */
export class Decoder implements TokenDecoder {
  readonly #decoder = new TextDecoder('utf-8', { ignoreBOM: true })
  #atStart: boolean

  /** @param marks - texts in which control tokens are shown */
  constructor(
    private readonly vocabulary: Vocabulary,
    before: readonly TokenId[] = [],
    private readonly marks: readonly string[] = [],
  ) {
    this.#atStart = vocabulary.addsSpace && before.length === 0
    const last: Uint8Array[] = []
    for (let index = before.length - 1; index >= 0 && last.length < overlap; index--) {
      const bytes = vocabulary.bytes(before[index]!)
      if (bytes.length > 0) last.unshift(bytes)
    }
    for (const bytes of last) this.#decoder.decode(bytes, { stream: true })
  }

  push(token: TokenId): string {
    const bytes = this.#bytes(token)
    if (bytes.length === 0) return this.marks.length === 0 ? '' : this.#shown(token)
    return this.#decoder.decode(bytes, { stream: true })
  }

  /** The text of all tokens at once, without marks. */
  whole(tokens: readonly TokenId[]): string {
    const all = Buffer.concat(tokens.map((token) => this.#bytes(token)))
    return this.#decoder.decode(all, { stream: true })
  }

  end(): string {
    return ''
  }

  #bytes(token: TokenId): Uint8Array {
    const bytes = this.vocabulary.bytes(token)
    if (!this.#atStart || token === this.vocabulary.bos) return bytes
    this.#atStart = false
    return bytes[0] === space ? bytes.subarray(1) : bytes
  }

  #shown(token: TokenId): string {
    const text = this.vocabulary.controlText(token)
    return text !== '' && this.marks.some((mark) => mark.includes(text)) ? text : ''
  }
}
