import type { ChatMessage, EngineClient } from '@cllm/core'
import { type Chat, prepareChat } from './prepare-chat.js'

/** Share of a slot that is left for the answer. */
const roomForAnswer = 1 / 8

/**
 * The conversation without its oldest messages, as many as do not fit the slot with some room for an
 * answer. System messages and the last message stay, and no result of a tool stays without its call. A
 * conversation that fits is returned as it is; one whose last message does not fit is refused later.
 */
export async function fitConversation(client: EngineClient, chat: Chat): Promise<Chat> {
  const { limits } = await client.info()
  const most = Math.ceil(limits.contextSize * (1 - roomForAnswer))
  const fits = async (messages: readonly ChatMessage[]): Promise<boolean> => {
    const { prompt } = await prepareChat(client, { ...chat, messages })
    const { tokens } = await client.applyTemplate(prompt.messages, prompt.template)
    return tokens.length <= most
  }
  if (await fits(chat.messages)) return chat
  const others = chat.messages.filter(({ role }) => role !== 'system').length
  let [low, high] = [1, Math.max(1, others - 1)]
  while (low < high) {
    const middle = (low + high) >> 1
    if (await fits(without(chat.messages, middle))) high = middle
    else low = middle + 1
  }
  return { ...chat, messages: without(chat.messages, high) }
}

/** The messages but the first `count` that are not the system's. */
function without(messages: readonly ChatMessage[], count: number): readonly ChatMessage[] {
  let left = count
  return messages.filter(({ role }, index) => {
    if (role === 'system') return true
    // a result belongs to the call before it
    if (left > 0 || (left === 0 && role === 'tool' && index < messages.length - 1)) {
      if (left > 0) left--
      return false
    }
    left = -1
    return true
  })
}
