import type { Prompt } from '../../contracts/engine/generate-request.js'
import type { TokenId, Tokenizer } from '../../contracts/model/tokenizer.js'

/** Text of more UTF-16 units is tokenized a part at a time: it takes some milliseconds. */
export const longText = 4096

/**
 * The tokens of a text or a conversation, a part at a time, or undefined where it is short or the
 * tokenizer knows no parts.
 */
export function inParts(
  prompt: Exclude<Prompt, { readonly tokens: unknown }>,
  tokenizer: Tokenizer,
): Iterable<readonly TokenId[]> | undefined {
  if ('messages' in prompt) {
    const { messages, template } = prompt
    const length = messages.reduce((sum, { content }) => sum + content.length, 0)
    return length > longText ? tokenizer.renderChatInParts?.(messages, template).tokens : undefined
  }
  return prompt.text.length > longText ? tokenizer.encodeInParts?.(prompt.text) : undefined
}
