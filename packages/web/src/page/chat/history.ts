import { createStore, del, entries, get, update } from 'idb-keyval'
import type { Conversation, Turn } from './conversation.js'

const store = createStore('cllm-chat', 'conversations')

/** The conversations that this browser keeps, in order. None where it keeps nothing. */
export async function readHistory(): Promise<Conversation[]> {
  try {
    const all = await entries<string, Conversation>(store)
    return inOrder(all.map(([, each]) => each))
  } catch {
    return [] // a private window may have no database
  }
}

/** Pinned ones first, the latest first of each. */
const inOrder = (all: readonly Conversation[]): Conversation[] =>
  all.toSorted(
    (a, b) => Number(b.pinned === true) - Number(a.pinned === true) || b.changedAt - a.changedAt,
  )

/** A conversation as it is kept now: another tab may have gone on with it. */
export async function readConversation(id: string): Promise<Conversation | undefined> {
  const kept = await get<Conversation>(id, store).catch(() => undefined)
  return kept && { ...kept, turns: kept.turns.map(asRead) }
}

/** An answer that was kept when it was asked for, and never after: the page was closed before its end. */
function asRead(turn: Turn): Turn {
  const isOpen = turn.role === 'assistant' && turn.figures === undefined
  return isOpen && turn.problem === undefined ? { ...turn, problem: 'Interrupted' } : turn
}

/** Keeps a conversation in this browser, whose turn `answer` is this tab's. */
export async function keep(conversation: Conversation, answer: string): Promise<void> {
  const { id } = conversation
  await update<Conversation>(id, (kept) => united(kept, conversation, answer), store).catch(
    () => {},
  )
}

/** Forgets a conversation. */
export async function forget(id: string): Promise<void> {
  await del(id, store).catch(() => {})
}

/**
 * A conversation with what another tab has added to the kept one meanwhile. A turn of both is as it was
 * kept, but for the answer that this tab is filling in: nothing else changes a turn.
 */
export function united(
  kept: Conversation | undefined,
  shown: Conversation,
  answer: string,
): Conversation {
  if (kept === undefined) return shown
  const own = new Map(shown.turns.map((turn) => [turn.id, turn]))
  const known = new Set(kept.turns.map(({ id }) => id))
  const both = kept.turns.map((turn): Turn => (turn.id === answer && own.get(answer)) || turn)
  return { ...shown, turns: [...both, ...shown.turns.filter(({ id }) => !known.has(id))] }
}
