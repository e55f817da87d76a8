import type { Conversation } from './conversation.js'
import { fromSaved } from './media-files.js'

/** Whether all the words are in its title or its turns. */
export function isAbout({ title, turns }: Conversation, words: string): boolean {
  const text = [title, ...turns.map(({ content }) => content)].join('\n').toLowerCase()
  const sought = words.toLowerCase().split(/\s+/)
  return sought.every((word) => text.includes(word))
}

const dayMs = 86_400_000

/** The heading that a conversation is listed under, at a time. */
export function ageOf({ changedAt, pinned }: Conversation, now: number): string {
  if (pinned === true) return 'Pinned'
  const today = new Date(now).setHours(0, 0, 0, 0)
  if (changedAt >= today) return 'Today'
  if (changedAt >= today - dayMs) return 'Yesterday'
  return changedAt >= today - 7 * dayMs ? 'Last 7 days' : 'Older'
}

/** Pinned ones first, the latest first of each. */
export const inOrder = (all: readonly Conversation[]): Conversation[] =>
  all.toSorted(
    (a, b) => Number(b.pinned === true) - Number(a.pinned === true) || b.changedAt - a.changedAt,
  )

/** The conversations of a file that was saved. Throws where it is none. */
export function parseConversations(text: string): Conversation[] {
  const read = JSON.parse(text) as unknown
  const all = Array.isArray(read) ? (read as unknown[]) : [read]
  if (!all.every(isConversation)) throw new Error('no conversation that was saved as JSON')
  return all.map((each) => {
    const turns = each.turns.map((turn) => {
      return { ...turn, ...(turn.files && { files: turn.files.map(fromSaved) }) }
    })
    return { ...each, turns }
  })
}

function isConversation(value: unknown): value is Conversation {
  const { id, title, turns, changedAt } = (value ?? {}) as Partial<Conversation>
  const areTurns =
    Array.isArray(turns) &&
    turns.every(
      ({ id, role, content }) =>
        typeof id === 'string' &&
        typeof content === 'string' &&
        ['user', 'assistant', 'tool'].includes(role),
    )
  return (
    areTurns && [id, title].every((each) => typeof each === 'string') && changedAt !== undefined
  )
}
