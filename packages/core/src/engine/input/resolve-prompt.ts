import { inject, injectable } from 'tsyringe'
import type { BackendLimits } from '../../contracts/model/backend.js'
import type { Prompt } from '../../contracts/engine/generate-request.js'
import { type ChatMessage, mediaPlace } from '../../contracts/model/tokenizer.js'
import type { PromptMedia, TokenId, Tokenizer } from '../../contracts/model/tokenizer.js'
import { CllmError } from '../../errors/cllm-error.js'
import { toError } from '../backend-calls.js'
import { checkTokens, invalidField, unsupported } from './check-request.js'
import type { Clock } from '../../contracts/services.js'
import * as tokens from '../../tokens.js'
import { EngineObservers } from '../report/engine-observers.js'

/** The tokenizer of a prompt, and the limits that it must fit into. */
export interface PromptContext {
  readonly tokenizer: Tokenizer
  readonly limits: BackendLimits
  /** Joins the tokens of a long prompt. */
  readonly parts: PartQueue
}

/**
 * Checks a prompt and tokenizes it, a long one over several turns of the event loop. The result is a list of the
 * engine's own.
 *
 * @param ensureWanted - throws when the tokens of a long prompt are no longer needed
 * @param files - its images and sounds, in whose places there are {@link mediaPlace}s; default: it may have none
 */
export function resolvePrompt(
  prompt: Prompt,
  context: PromptContext,
  ensureWanted: () => void,
  files: readonly PromptMedia[] = [],
): TokenId[] | Promise<TokenId[]> {
  const { tokenizer, limits } = context
  const isMixed = files.length > 0
  if (typeof prompt !== 'object' || prompt === null) {
    throw invalidField('prompt', 'an object with text, messages or tokens', prompt)
  }
  let length = 0
  if ('tokens' in prompt) {
    const { tokens, media } = prompt
    if (media !== undefined && !isMixed) throw unseen()
    if (!Array.isArray(tokens)) throw invalidField('prompt', 'an array of token ids', tokens)
    checkTokens('prompt', tokens, tokenizer)
    const places = [...tokens]
    for (const { at } of files.toReversed()) places.splice(at, 0, mediaPlace)
    return checkLength(places, context)
  }
  if ('messages' in prompt) {
    const { messages } = prompt
    if (!Array.isArray(messages) || messages.length === 0) {
      throw invalidField('messages', 'an array of at least one message', messages)
    }
    checkMessageCount(messages, context)
    for (const [index, message] of messages.entries()) {
      const { role, content, media } = (message ?? {}) as Partial<ChatMessage>
      if (typeof role !== 'string' || typeof content !== 'string') {
        const expected = 'a message with the texts role and content'
        throw invalidField(`messages[${index}]`, expected, message)
      }
      if (media !== undefined && !isMixed) throw unseen()
      length += content.length
    }
  } else {
    const { text, media } = prompt
    if (media !== undefined && !isMixed) throw unseen()
    if (typeof text !== 'string' || text === '') {
      throw invalidField('prompt', 'a non-empty text', text)
    }
    length = text.length
  }
  // Tokenizing blocks the loop, so a prompt that cannot fit by its size alone is refused before. Bytes are only counted
  // for long prompts: a UTF-16 unit has at most three.
  if (3 * length > limits.contextSize * tokenizer.maxTokenBytes) refuseBySize(prompt, context)
  try {
    if (length > longText || (isMixed && 'text' in prompt)) {
      const parts =
        'messages' in prompt
          ? tokenizer.renderChatInParts?.(prompt.messages, prompt.template).tokens
          : isMixed
            ? withPlaces(prompt.text, files, tokenizer)
            : tokenizer.encodeInParts?.(prompt.text)
      if (parts !== undefined) return readSlowly(parts, context, ensureWanted)
    }
    const tokens =
      'messages' in prompt
        ? tokenizer.renderChat(prompt.messages, prompt.template).tokens
        : tokenizer.encode(prompt.text)
    // A copy, as the answer is appended to it and a plug-in's tokenizer may return the same list again.
    return checkLength([...tokens], context)
  } catch (error) {
    throw toError(error, 'messages' in prompt ? 'renderChat' : 'encode')
  }
}

/**
 * Joins the parts of a prompt, as long as they fit.
 *
 * @throws CllmError `prompt_too_long`
 */
async function readSlowly(
  parts: Parts,
  context: PromptContext,
  ensureWanted: () => void,
): Promise<TokenId[]> {
  const tokens = await context.parts.join(parts, ({ length }) => {
    ensureWanted()
    if (length > context.limits.contextSize) throw promptTooLong(length, context, 'at least ')
  })
  return checkLength(tokens, context)
}

/** The tokens of a text, with a placeholder for each file. */
function* withPlaces(
  text: string,
  files: readonly PromptMedia[],
  tokenizer: Tokenizer,
): Generator<readonly TokenId[], void> {
  const encode = (part: string): Iterable<readonly TokenId[]> =>
    tokenizer.encodeInParts?.(part, { addBos: false }) ?? [
      tokenizer.encode(part, { addBos: false }),
    ]
  yield tokenizer.encode('')
  let from = 0
  for (const { at } of files) {
    yield* encode(text.slice(from, at))
    yield [mediaPlace]
    from = at
  }
  yield* encode(text.slice(from))
}

/** Checks the number of tokens. @throws CllmError `prompt_too_long` if they do not fit into a slot */
export function checkLength(tokens: TokenId[], context: PromptContext): TokenId[] {
  if (tokens.length === 0) throw invalidField('prompt', 'at least one token', tokens)
  if (tokens.length > context.limits.contextSize) throw promptTooLong(tokens.length, context)
  return tokens
}

const unseen = (): CllmError =>
  unsupported('prompt', 'media', 'this model is served without an encoder for images')

/** Checks a prompt's bytes. @throws CllmError `prompt_too_long` if it cannot fit by its size alone */
function refuseBySize(
  prompt: Exclude<Prompt, { readonly tokens: unknown }>,
  context: PromptContext,
): void {
  const pieces = 'messages' in prompt ? prompt.messages : [{ content: prompt.text }]
  const encoder = new TextEncoder()
  let bytes = 0
  for (const { content } of pieces) bytes += encoder.encode(content).length
  const least = Math.ceil(bytes / context.tokenizer.maxTokenBytes)
  if (least > context.limits.contextSize) throw promptTooLong(least, context, 'at least ')
}

/**
 * Checks the number of messages: templates write at least one token for each, and block the loop for thousands.
 * @throws CllmError `prompt_too_long` for more messages than a slot holds tokens
 */
export function checkMessageCount(
  { length }: readonly unknown[],
  context: { readonly limits: BackendLimits },
): void {
  if (length > context.limits.contextSize) throw promptTooLong(length, context, 'at least ')
}

function promptTooLong(
  count: number,
  { limits }: Pick<PromptContext, 'limits'>,
  more = '',
): CllmError {
  const message =
    `prompt: it has ${more}${count} tokens, a slot holds ${limits.contextSize}: it exceeds the ` +
    'available context size'
  return new CllmError('prompt_too_long', message, {
    details: { field: 'prompt', promptTokens: count, contextSize: limits.contextSize },
  })
}

/** Texts of more UTF-16 units are tokenized in parts, as they take some milliseconds. */
export const longText = 4096

/** A prompt's tokens, a part at a time. */
type Parts = Iterable<readonly TokenId[]>

interface LongText {
  readonly parts: Iterator<readonly TokenId[]>
  readonly tokens: TokenId[]
  readonly check: (tokens: readonly TokenId[]) => void
  readonly resolve: (tokens: TokenId[]) => void
  readonly reject: (error: unknown) => void
}

/**
 * Tokenizes long texts, one part per turn of the event loop however many texts there are, so that steps and messages go
 * on in between. Texts are finished one after the other, so that the first is computed while the next is tokenized.
 */
@injectable()
export class PartQueue {
  /** The unfinished texts, in the order of arrival. */
  readonly #texts = new Set<LongText>()

  constructor(
    @inject(EngineObservers) private readonly observers: EngineObservers,
    @inject(tokens.CLOCK) private readonly clock: Clock,
  ) {}

  /**
   * Joins the parts.
   *
   * @param check - called in each turn, with the tokens so far; what it throws ends the work
   */
  async join(parts: Parts, check: LongText['check']): Promise<TokenId[]> {
    return await new Promise((resolve, reject) => {
      this.#texts.add({ parts: parts[Symbol.iterator](), tokens: [], check, resolve, reject })
      if (this.#texts.size === 1) this.#turn()
    })
  }

  /** Waits for work elsewhere, and tells observers each second that it goes on. */
  async during<T>(work: Promise<T>): Promise<T> {
    let cancel = () => {}
    const beat = (): void => {
      const now = this.clock.now()
      this.observers.tell('onTokenized', now)
      cancel = this.clock.at(now + 1000, beat)
    }
    beat()
    try {
      return await work
    } finally {
      cancel()
    }
  }

  #turn(): void {
    for (const text of this.#texts) this.#attempt(text, () => text.check(text.tokens))
    for (const text of this.#texts) if (this.#takePart(text)) break
    // oxlint-disable-next-line no-restricted-globals -- yields to the event loop; no time is measured
    if (this.#texts.size > 0) setImmediate(() => this.#turn())
  }

  /** Tokenizes one part; false if there was none left, and the text is done. */
  #takePart(text: LongText): boolean {
    let isPart = false
    this.#attempt(text, () => {
      const { done, value } = text.parts.next()
      if (done === true) {
        this.#texts.delete(text)
        text.resolve(text.tokens)
        return
      }
      isPart = true
      for (const token of value) text.tokens.push(token)
      this.observers.tell('onTokenized', this.clock.now())
    })
    return isPart
  }

  #attempt(text: LongText, work: () => void): void {
    try {
      work()
    } catch (error) {
      this.#texts.delete(text)
      text.parts.return?.()
      text.reject(toError(error))
    }
  }
}
