import type { BackendLimits } from '../../contracts/model/backend.js'
import type { Prompt } from '../../contracts/engine/generate-request.js'
import type { ChatMessage, TokenId, Tokenizer } from '../../contracts/model/tokenizer.js'
import { CllmError } from '../../errors/cllm-error.js'
import { checkTokens, invalidField } from './check-fields.js'
import { inParts } from './tokenize-in-parts.js'
import type { PartQueue } from './part-queue.js'

/** What a prompt is tokenized with and must fit into. */
export interface PromptContext {
  readonly tokenizer: Tokenizer
  readonly limits: BackendLimits
  /** Joins the tokens of a long prompt. */
  readonly parts: PartQueue
}

/**
 * Checks a prompt and tokenizes it, a long one over several turns of the event loop. The result is
 * the engine's own: nobody else changes it.
 *
 * @param ensureWanted - throws when the tokens of a long prompt do not matter any more
 */
export function resolvePrompt(
  prompt: Prompt,
  context: PromptContext,
  ensureWanted: () => void,
): TokenId[] | Promise<TokenId[]> {
  const { tokenizer } = context
  checkShape(prompt, tokenizer)
  if ('tokens' in prompt) return checkLength([...prompt.tokens], context)
  refuseBySize(
    'messages' in prompt ? prompt.messages.map(({ content }) => content) : [prompt.text],
    context,
  )
  const parts = inParts(prompt, tokenizer)
  if (parts !== undefined) return readSlowly(parts, context, ensureWanted)
  return checkLength(
    'messages' in prompt
      ? [...tokenizer.renderChat(prompt.messages, prompt.template).tokens]
      : tokenizer.encode(prompt.text),
    context,
  )
}

async function readSlowly(
  parts: Iterable<readonly TokenId[]>,
  context: PromptContext,
  ensureWanted: () => void,
): Promise<TokenId[]> {
  const tokens = await context.parts.join(parts, ({ length }) => {
    ensureWanted()
    if (length > context.limits.contextSize) throw promptTooLong(length, context, 'at least ')
  })
  return checkLength(tokens, context)
}

function checkLength(tokens: TokenId[], context: PromptContext): TokenId[] {
  if (tokens.length === 0) throw invalidField('prompt', 'at least one token', tokens)
  if (tokens.length > context.limits.contextSize) {
    throw promptTooLong(tokens.length, context)
  }
  return tokens
}

function checkShape(prompt: Prompt, tokenizer: Tokenizer): void {
  if (typeof prompt !== 'object' || prompt === null) {
    throw invalidField('prompt', 'an object with text, messages or tokens', prompt)
  }
  if ('tokens' in prompt) {
    if (!Array.isArray(prompt.tokens)) {
      throw invalidField('prompt', 'an array of token ids', prompt.tokens)
    }
    checkTokens('prompt', prompt.tokens, tokenizer)
  } else if ('messages' in prompt) {
    checkMessages(prompt.messages)
  } else if (typeof prompt.text !== 'string' || prompt.text === '') {
    throw invalidField('prompt', 'a non-empty text', prompt.text)
  }
}

function checkMessages(messages: readonly ChatMessage[]): void {
  if (!Array.isArray(messages) || messages.length === 0) {
    throw invalidField('messages', 'an array of at least one message', messages)
  }
  for (const [index, message] of messages.entries()) {
    const { role, content } = (message ?? {}) as Partial<ChatMessage>
    if (typeof role === 'string' && typeof content === 'string') continue
    const field = `messages[${index}]`
    throw invalidField(field, 'a message with the texts role and content', message)
  }
}

/** Tokenizing blocks the loop, so what cannot fit by its size alone is refused before. */
function refuseBySize(texts: readonly string[], context: PromptContext): void {
  const { maxTokenBytes } = context.tokenizer
  const units = texts.reduce((sum, text) => sum + text.length, 0)
  // Three bytes a unit at most: prompts of usual lengths are not copied only to be measured.
  if (3 * units <= context.limits.contextSize * maxTokenBytes) return
  const encoder = new TextEncoder()
  const bytes = texts.reduce((sum, text) => sum + encoder.encode(text).length, 0)
  const least = Math.ceil(bytes / maxTokenBytes)
  if (least > context.limits.contextSize) throw promptTooLong(least, context, 'at least ')
}

function promptTooLong(count: number, { limits }: PromptContext, more = ''): CllmError {
  const message =
    `prompt: it has ${more}${count} tokens, a slot holds ${limits.contextSize}: it exceeds the ` +
    'available context size'
  return new CllmError('prompt_too_long', message, {
    details: { field: 'prompt', promptTokens: count, contextSize: limits.contextSize },
  })
}
