import { createStore, del, entries, set } from 'idb-keyval'
import type { Conversation } from './conversation.js'

const store = createStore('cllm-chat', 'conversations')

/** The conversations that this browser keeps, the latest first. None where it keeps nothing. */
export async function readHistory(): Promise<Conversation[]> {
  try {
    const all = await entries<string, Conversation>(store)
    return all.map(([, each]) => each).sort((a, b) => b.changedAt - a.changedAt)
  } catch {
    return [] // a private window may have no database
  }
}

/** Keeps a conversation in this browser. */
export async function keep(conversation: Conversation): Promise<void> {
  await set(conversation.id, conversation, store).catch(() => {})
}

/** Forgets a conversation. */
export async function forget(id: string): Promise<void> {
  await del(id, store).catch(() => {})
}
