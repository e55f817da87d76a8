/** A token's number in the model's vocabulary. */
export type TokenId = number

/** The kinds of files in a prompt. */
export type MediaType = 'image' | 'audio'

/** An image or a sound in a prompt. */
export interface PromptMedia {
  readonly type: MediaType
  /** Its place in the text: the number of UTF-16 units before it. */
  readonly at: number
  /** The file in base64: PNG, JPEG, WebP, GIF or BMP; WAV, MP3 or FLAC. */
  readonly data: string
  /** Scales an image down to at most 512 pixels a side, for fewer tokens if the projector allows. Default: as it is. */
  readonly detail?: 'low'
  /** The field of the client's request that has it, for errors. */
  readonly field?: string
  /** A text in its place if the file cannot be read. Default: the request fails. */
  readonly otherwise?: string
}

/** Stands for an image or a sound among the tokens of a rendered conversation. */
export const mediaPlace: TokenId = -1

/** One message of a conversation, as chat templates know it. */
export interface ChatMessage {
  /** `system`, `user`, `assistant`, `tool`, or another role that the model's template knows. */
  readonly role: string
  readonly content: string
  /** Images and sounds in the content, in their order. Default: none. */
  readonly media?: readonly PromptMedia[]
  /** The author of the message, or the tool whose result it is. */
  readonly name?: string
  /** The tools that the assistant called. */
  readonly tool_calls?: readonly ChatToolCall[]
  /** The call that a message of the role `tool` answers. */
  readonly tool_call_id?: string
  /** The assistant's reasoning before its answer; most templates leave it out. */
  readonly reasoning_content?: string
}

/** A tool call, with the field names that chat templates use. */
export interface ChatToolCall {
  readonly id?: string
  readonly type: 'function'
  readonly function: {
    readonly name: string
    readonly arguments: Readonly<Record<string, unknown>>
  }
}

/** How a conversation is rendered. */
export interface ChatRenderOptions {
  /** Ends with the opening of the assistant's turn; default true. */
  readonly addGenerationPrompt?: boolean
  /** Further variables for the template, such as `enable_thinking`. */
  readonly variables?: Readonly<Record<string, unknown>>
  /**
   * Leaves the last message open, so that the model continues it, as in transformers; default false. No new turn is
   * opened then.
   */
  readonly continueFinalMessage?: boolean
  /** A text at the very end, in which special tokens are read as such; default: none. */
  readonly suffix?: string
}

/** A rendered conversation. */
export interface RenderedChat {
  readonly text: string
  /**
   * The tokens of the text, with `mediaPlace` for each image or sound. Special tokens in the messages' own text stay
   * plain text.
   */
  readonly tokens: readonly TokenId[]
}

/** Turns tokens into text piece by piece; one per running request. */
export interface TokenDecoder {
  /**
   * Takes the next token and returns the text that is complete with it: the empty string while a
   * UTF-8 character is still incomplete, never a broken character.
   */
  push(token: TokenId): string
  /** Ends the text. What is still incomplete is dropped. */
  end(): string
}

/** Options of {@link Tokenizer.createDecoder}. */
export interface DecoderOptions {
  /**
   * Control tokens whose text is a part of one of these texts are shown. Default: control tokens are never shown.
   */
  readonly marks?: readonly string[]
}

/** Options of {@link Tokenizer.encode}. */
export interface EncodeOptions {
  /** Puts the model's begin-of-sequence token in front where the model wants one; default true. */
  readonly addBos?: boolean
  /** Reads special tokens such as `<|im_end|>` in the text as such; default true. */
  readonly special?: boolean
}

/** The special tokens for fill-in-the-middle, which begin each part of the prompt. */
export interface InfillTokens {
  readonly prefix: TokenId
  readonly suffix: TokenId
  readonly middle: TokenId
  /** The tokens that begin a repository and each of its files, if the model has them. */
  readonly repository?: TokenId
  readonly file?: TokenId
}

/**
 * Text to tokens and back. By default it is the backend's own ({@link Backend.tokenizer}); another
 * one can be registered under the `TOKENIZER` token.
 */
export interface Tokenizer {
  readonly vocabularySize: number
  /**
   * The longest text, in UTF-8 bytes, that one token can stand for. A prompt with more bytes than
   * slot size × this cannot fit and is refused before it is tokenized.
   */
  readonly maxTokenBytes: number
  /** Left out if the model cannot do fill-in-the-middle. */
  readonly infill?: InfillTokens
  /** The tokens of a text. Synchronous: it takes time in proportion to the text. */
  encode(text: string, options?: EncodeOptions): TokenId[]
  /**
   * The same tokens in parts, each after a few milliseconds at most, so that a long text does not delay the steps of other
   * requests. Without this method a text is encoded at once.
   */
  encodeInParts?(text: string, options?: EncodeOptions): Iterable<readonly TokenId[]>
  /** The whole text of these tokens. Ids outside the vocabulary throw `invalid_token`. */
  decode(tokens: readonly TokenId[]): string
  /**
   * The bytes of text of a token, with its leading space; none for a control token.
   * Without this method, `decode` is used.
   */
  bytesOf?(token: TokenId): Uint8Array
  /** How a prompt writes a control token; empty for others. Without this method, none is shown. */
  controlText?(token: TokenId): string
  /** A decoder for text that continues `before` (which is not returned again). */
  createDecoder(before?: readonly TokenId[], options?: DecoderOptions): TokenDecoder
  /** Whether the model means to stop with this token. */
  isEndOfGeneration(token: TokenId): boolean
  /** A conversation as the model's chat template renders it. */
  renderChat(messages: readonly ChatMessage[], options?: ChatRenderOptions): RenderedChat
  /** As {@link renderChat}, with the tokens in parts, as in {@link encodeInParts}. */
  renderChatInParts?(
    messages: readonly ChatMessage[],
    options?: ChatRenderOptions,
  ): { readonly text: string; readonly tokens: Iterable<readonly TokenId[]> }
}
