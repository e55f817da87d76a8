import { CllmError, type InfillTokens, type TokenId } from '@cllm/core'
import type { TokenTexts } from '../grammar/match/token-trie.js'
import type { NativeModel } from '../native/native-model.js'
import {
  JoinedCharacters,
  plainByte,
  spelledByte,
  spelledBytes,
  spelledGaps,
  TextsWriter,
} from './token-texts.js'

/** Bits of llama.cpp's token attributes. */
export const TokenAttribute = {
  Unknown: 1,
  Normal: 4,
  Control: 8,
  UserDefined: 16,
  Byte: 32,
  StripsLeft: 128,
  StripsRight: 256,
} as const

/** llama.cpp's kinds of vocabulary. */
const VocabularyType = {
  None: 0,
  SentencePiece: 1,
  BytePair: 2,
  WordPiece: 3,
  Unigram: 4,
  Rwkv: 5,
  Plamo2: 6,
} as const

const nothing = new Uint8Array(0)
const encoder = new TextEncoder()
const decoder = new TextDecoder()
const silent = TokenAttribute.Control | TokenAttribute.Unknown
const textual = TokenAttribute.Normal | TokenAttribute.UserDefined | TokenAttribute.Byte
/** The character that spells a space in byte-pair vocabularies. */
const spelledSpace = '\u0120'
/** Matches a letter in a token and the character behind it (\u0109, \u010a, \u010d, \u0120 and \u2581 spell white space). */
const behindLetter = /([^\P{L}\u0109\u010a\u010d\u0120])([!-@[-`{-~ \n\u010a\u0120\u2581])/gu
/** A token that text only becomes with special parsing, such as `<|im_end|>`. */
export interface ControlToken {
  readonly id: TokenId
  readonly text: string
  readonly attributes: number
}

/**
 * The tokens of a model, read once. Their bytes are kept in one buffer, as strings would take some ten megabytes.
 * Every id is checked before it is passed to llama.cpp, as an unknown one would end the process.
 */
export class Vocabulary {
  /** The largest number of UTF-8 bytes in the text of one token. */
  readonly maxTokenBytes: number
  readonly controlTokens: readonly ControlToken[]
  /** Tokens that end generation. */
  readonly endOfGeneration: ReadonlySet<TokenId>
  /** The BOS token, or undefined. */
  readonly bos: TokenId | undefined
  /** Tokens for fill-in-the-middle, if the model has them. */
  readonly infill: InfillTokens | undefined
  /** The texts of these tokens for chat templates; empty if there is none. */
  readonly bosText: string
  readonly eosText: string
  /** Whether the tokenizer adds a space in front of each text. */
  readonly addsSpace: boolean
  /** The spaces, newlines, digits and ASCII punctuation that some token has behind a letter. */
  readonly joined: ReadonlySet<string>
  /** The first characters of special tokens, if tokens have them nowhere else and strip no white space before them. */
  readonly markStarts: ReadonlySet<string>

  readonly #controlTexts: ReadonlyMap<TokenId, string>
  readonly #type: number
  /** Whether the texts of normal tokens spell bytes. */
  readonly #spellsBytes: boolean
  /** The bytes of all tokens in one buffer, and the place of each. */
  readonly texts: TokenTexts

  constructor(
    private readonly model: NativeModel,
    readonly size: number,
  ) {
    this.#type = model.getVocabularyType()
    this.#spellsBytes = this.#findSpelling()
    const controlTokens: ControlToken[] = []
    const endOfGeneration = new Set<TokenId>()
    let maxTokenBytes = 1
    const joined = new JoinedCharacters()
    const texts = new TextsWriter(size)
    const starts = new Set<string>()
    const notStarts = new Set<string>()
    for (let id = 0; id < this.size; id++) {
      const attributes = model.getTokenAttributes(id)
      const text = model.getTokenString(id)
      const isControl = (attributes & silent) !== 0
      const isMark = (attributes & (silent | TokenAttribute.UserDefined)) !== 0
      if ((attributes & TokenAttribute.Byte) === 0 && joined.mayAdd(text)) {
        this.#addJoined(joined, text, isMark)
      }
      if (isMark) {
        if ((attributes & TokenAttribute.StripsLeft) === 0) starts.add(text.charAt(0))
        else notStarts.add(text.charAt(0))
        for (let at = 1; at < text.length; at++) notStarts.add(text.charAt(at))
      }
      if (isControl) controlTokens.push({ id, text, attributes })
      if (model.isEogToken(id)) endOfGeneration.add(id)
      const isPlain = attributes === TokenAttribute.Normal && this.#type < VocabularyType.Rwkv
      const byteOf = this.#spellsBytes ? spelledByte : plainByte
      const length =
        (isPlain ? texts.addSpelled(text, byteOf) : undefined) ??
        texts.add(this.#read(id, text, attributes))
      // a text has at most three bytes per UTF-16 unit
      const most =
        3 * text.length > maxTokenBytes && isControl ? encoder.encode(text).length : length
      maxTokenBytes = Math.max(maxTokenBytes, most)
    }
    this.texts = texts.all
    // In these vocabularies any amount of text can become one token.
    const { WordPiece, Unigram } = VocabularyType
    const collapses = this.#type === WordPiece || this.#type === Unigram
    this.maxTokenBytes = collapses ? Infinity : maxTokenBytes
    this.joined = joined.found
    this.markStarts = new Set([...starts].filter((character) => !notStarts.has(character)))
    this.controlTokens = controlTokens
    this.#controlTexts = new Map(controlTokens.map(({ id, text }) => [id, text]))
    this.infill = findInfillTokens(model, controlTokens)
    this.endOfGeneration = endOfGeneration
    const bos = model.tokenBos()
    const eos = model.tokenEos()
    this.bos = bos >= 0 && model.shouldPrependBosToken() ? bos : undefined
    this.bosText = bos >= 0 ? model.getTokenString(bos) : ''
    this.eosText = eos >= 0 ? model.getTokenString(eos) : ''
    this.addsSpace = this.#addsSpace()
  }

  /** @throws CllmError `invalid_token` */
  check(token: TokenId): void {
    if (Number.isInteger(token) && token >= 0 && token < this.size) return
    const expected = `0 to ${this.size - 1}`
    const message = `expected token ids from ${expected}, got ${token}`
    throw new CllmError('invalid_token', message, { details: { expected, received: token } })
  }

  /**
   * The UTF-8 bytes of a token's text; none for control tokens.
   * @throws CllmError `invalid_token`
   */
  bytes(token: TokenId): Uint8Array {
    this.check(token)
    const { bytes, starts } = this.texts
    return bytes.subarray(starts[token], starts[token + 1])
  }

  #read(token: TokenId, text: string, attributes: number): Uint8Array {
    if ((attributes & silent) !== 0 || (attributes & textual) === 0) return nothing
    if (this.#type === VocabularyType.Rwkv || this.#type > VocabularyType.Plamo2) {
      return encoder.encode(this.model.detokenize(Uint32Array.of(token), false))
    }
    if ((attributes & TokenAttribute.Byte) !== 0) {
      const byte = /^<0x([0-9A-Fa-f]{2})>$/.exec(text)?.[1]
      if (byte !== undefined) return Uint8Array.of(Number.parseInt(byte, 16))
    }
    if ((attributes & TokenAttribute.UserDefined) !== 0) return encoder.encode(text)
    if (this.#type === VocabularyType.Plamo2) return encoder.encode(text)
    const spelled = this.#spellsBytes ? spelledBytes(text) : undefined
    return spelled ?? encoder.encode(text.replaceAll('\u2581', ' '))
  }

  /** The text of a control token; empty for other tokens. */
  controlText(token: TokenId): string {
    return this.#controlTexts.get(token) ?? ''
  }

  /** Adds the characters that a token has behind letters; marks do not spell bytes. */
  #addJoined(joined: JoinedCharacters, text: string, isMark: boolean): void {
    for (const { index, 1: letter, 2: next } of text.matchAll(behindLetter)) {
      const spelled = spelledGaps[next!]
      if (spelled !== undefined && isMark) continue
      if (this.#spellsBytes && !isMark && letter! > '~') {
        const before = spelledBytes(text.slice(0, index + 1))
        if (before !== undefined && !/[\p{L}\ufffd]$/u.test(decoder.decode(before))) continue
      }
      joined.add(next!, spelled ?? next!)
    }
  }

  /** Whether the texts of tokens spell bytes; in some byte-pair vocabularies (Gemma 4's) they are plain text. */
  #findSpelling(): boolean {
    if (this.#type !== VocabularyType.BytePair) return false
    const spaced = this.#find(
      (text, id) =>
        text.startsWith(spelledSpace) &&
        (this.model.getTokenAttributes(id) & TokenAttribute.Normal) !== 0,
    )
    if (spaced === undefined) return true
    return !this.model.detokenize(Uint32Array.of(spaced), false).includes(spelledSpace)
  }

  #addsSpace(): boolean {
    if (this.#type === VocabularyType.BytePair) return false
    const spaced = this.#find((text) => /^\u2581[a-z]/.test(text))
    if (spaced === undefined) return false
    return !this.model.detokenize(Uint32Array.of(spaced), false).startsWith(' ')
  }

  /** The first token that satisfies a condition. */
  #find(isIt: (text: string, id: TokenId) => boolean): TokenId | undefined {
    for (let id = 0; id < this.size; id++) if (isIt(this.model.getTokenString(id), id)) return id
    return undefined
  }
}

/** The texts of these two tokens in different models, as llama.cpp does not expose the ids that it finds. */
const repositoryTexts = ['<|repo_name|>', '<fim-repo>', '<repo_name>', '<reponame>']
const fileTexts = ['<|file_sep|>', '<|file_separator|>', '<file_sep>']

/**
 * The fill-in-the-middle tokens of a model, from its metadata or from the texts llama.cpp knows.
 * Undefined unless prefix, suffix and middle all have one.
 */
function findInfillTokens(
  model: NativeModel,
  controlTokens: readonly ControlToken[],
): InfillTokens | undefined {
  const [prefix, suffix, middle] = [model.prefixToken(), model.suffixToken(), model.middleToken()]
  if (Math.min(prefix, suffix, middle) < 0) return undefined
  const named = (name: 'repository' | 'file', texts: readonly string[]) => {
    const id: TokenId | undefined = controlTokens.find(({ text }) => texts.includes(text))?.id
    return id === undefined ? {} : { [name]: id }
  }
  return {
    prefix,
    suffix,
    middle,
    ...named('repository', repositoryTexts),
    ...named('file', fileTexts),
  }
}
