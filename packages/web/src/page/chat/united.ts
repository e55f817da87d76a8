import type { Conversation, Turn } from './conversation.js'

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
