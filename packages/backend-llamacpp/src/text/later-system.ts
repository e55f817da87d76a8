import type { ChatMessage } from '@cllm/core'
import type { JinjaTemplate } from '../native/native.js'

/** Whether a template writes a message of the system in the middle of a conversation in its place. */
export function keepsLaterSystem(template: JinjaTemplate): boolean {
  const messages = ['system', 'user', 'assistant', 'system', 'user'].map((role, index) => {
    return { role, content: `cllm-probe-${index}` }
  })
  try {
    const text = template.render({ messages, add_generation_prompt: true })
    const [before, at, after] = [2, 3, 4].map((index) => text.indexOf(`cllm-probe-${index}`))
    return before! < at! && at! < after!
  } catch {
    return false
  }
}

/** Messages of the system behind the first are the user's, and those of the user that are neighbours are one. */
export function withUserForSystem(messages: readonly ChatMessage[]): readonly ChatMessage[] {
  const shown = messages.slice(0, 1)
  for (const message of messages.slice(1)) {
    const role = message.role === 'system' ? 'user' : message.role
    const before = shown.at(-1)
    const isSame = role === 'user' && before?.role === 'user'
    const content = isSame ? `${before.content}\n\n${message.content}` : message.content
    if (isSame) shown[shown.length - 1] = { ...before, content }
    else shown.push({ ...message, role })
  }
  return shown
}
