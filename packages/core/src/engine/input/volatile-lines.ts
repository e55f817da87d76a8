import type { Prompt } from '../../contracts/engine/generate-request.js'
import type { ChatMessage } from '../../contracts/model/tokenizer.js'

/**
 * Lines in messages of the system that are others in each request: `billing`, with which Claude Code begins and which
 * tells the model nothing, is left out; `clock`, a line that begins by saying that it tells the time, such as
 * LangGraph's `System time: …`, goes to the end of the last message.
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
  /** Those of the client, one for each, without the lines; none where the prompt has no messages. */
  readonly messages?: readonly ChatMessage[]
}

/**
 * A prompt without the volatile lines of these kinds where they would change its beginning, so that what was computed
 * for the call before can be used. Without any, or where no message can take a clock, it is the same object.
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
    // Images stand at places of the text as it is.
    const isText = typeof message?.content === 'string' && message.media === undefined
    if (message?.role !== 'system' || !isText) return message
    let { content } = message
    if (kinds.includes('billing')) content = content.replace(billing, '')
    // Behind the last message of the client it is late enough.
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
