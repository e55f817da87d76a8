import type { Prompt } from '../../contracts/engine/engine-client.js'
import type { TokenId, Tokenizer } from '../../contracts/model/tokenizer.js'

/** Text of more UTF-16 units is tokenized a part at a time: it takes some milliseconds. */
const longText = 4096

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
    return length > longText ? tokenizer.renderChatInParts?.(messages, template) : undefined
  }
  return prompt.text.length > longText ? tokenizer.encodeInParts?.(prompt.text) : undefined
}

/**
 * Joins the parts, one in each turn of the event loop, so that steps go on in between.
 *
 * @param check - called before each further part; what it throws ends the work
 */
export async function collect(
  parts: Iterable<readonly TokenId[]>,
  check: (tokens: readonly TokenId[]) => void,
): Promise<TokenId[]> {
  const tokens: TokenId[] = []
  for (const part of parts) {
    for (const token of part) tokens.push(token)
    // oxlint-disable-next-line no-restricted-globals -- yields to the event loop; no time is measured
    await new Promise<void>((resolve) => setImmediate(resolve))
    check(tokens)
  }
  return tokens
}
