import type { Prompt } from '../../contracts/engine/generate-request.js'
import type { ChatMessage } from '../../contracts/model/tokenizer.js'

/**
 * Kinds of lines in system messages that change with every request. `billing`: Claude Code's first line, which tells the
 * model nothing, is left out. `clock`: a line that announces the time, such as LangGraph's `System time: …`, is moved to
 * the end of the last message.
 */
export const volatileLines = ['billing', 'clock'] as const

/** A kind of {@link volatileLines}. */
export type VolatileLine = (typeof volatileLines)[number]

const billing = /^x-anthropic-billing-header:[^\n]*\n*/gm
const clock =
  /^[<*# \t-]{0,8}(?:the )?(?:current|system|local|today'?s)?[ _]?(?:date)?[ _,/&]{0,3}(?:and)?[ _]?(?:date|time|now|today)(?:stamp)?(?: is\b| now is\b|[*"]{0,3}[ \t]{0,3}[:=>])[^\n]{0,60}?\d{1,2}:\d{2}[^\n]{0,80}(?:\n|$)/gim

/** A prompt to compute, and its messages. */
interface Stable<Given> {
  readonly prompt: Given
  /** The client's messages, one for each, without these lines; undefined where the prompt has no messages. */
  readonly messages?: readonly ChatMessage[]
}

/**
 * Moves or removes the volatile lines of these kinds that would change a prompt's beginning, so that the cached tokens of
 * the call before can be used. The same object, if there are no such lines or no message can take them.
 */
export function withStableBeginning<Given extends Prompt>(
  prompt: Given,
  kinds: readonly VolatileLine[],
): Stable<Given> {
  const { messages } = (prompt ?? {}) as { readonly messages?: readonly ChatMessage[] }
  if (!Array.isArray(messages)) return { prompt }
  const isSaid = (messages as ChatMessage[]).some((one) => one?.role === 'system')
  if (kinds.length === 0 || !isSaid) return { prompt, messages }
  const moved: string[] = []
  const last = messages.findLastIndex((one) => one?.role === 'user' || one?.role === 'tool')
  let isChanged = false
  const stable = messages.map((message, index) => {
    // Images are at positions in the text, which must not change.
    const isText = typeof message?.content === 'string' && message.media === undefined
    if (message?.role !== 'system' || !isText) return message
    let { content } = message
    if (kinds.includes('billing')) content = content.replace(billing, '')
    // A system message behind the client's last message is late enough.
    if (kinds.includes('clock') && index < last) {
      content = content.replace(clock, (line: string) => {
        moved.push(line.trim())
        return ''
      })
    }
    if (content === message.content) return message
    isChanged = true
    return { ...message, content }
  })
  if (!isChanged) return { prompt, messages }
  const computed = stable.map((message, index) => {
    if (index !== last || moved.length === 0) return message
    return { ...message, content: `${message.content}\n\n${moved.join('\n')}` }
  })
  const said = computed.filter(({ role, content }) => role !== 'system' || content.trim() !== '')
  return { prompt: { ...prompt, messages: said.length > 0 ? said : messages }, messages: stable }
}
