import { createStore, del, entries, get, update } from 'idb-keyval'
import { dataUrlOf, isMedia, shownTurns } from './conversation.js'
import type { Attachment, Conversation, MediaFile, Turn } from './conversation.js'

/** A conversation's title in the list, and whether it is pinned there. */
export type Marks = Pick<Partial<Conversation>, 'title' | 'pinned'>

const store = createStore('cllm-chat', 'conversations')
/** Conversations that this tab has stored or read: one of them that is missing was deleted. */
const stored = new Set<string>()

/** The conversations that this browser stores, in the list's order; none if it has no storage. */
export async function readHistory(): Promise<Conversation[]> {
  try {
    const all = await entries<string, Conversation>(store)
    for (const [id] of all) stored.add(id)
    return inOrder(all.map(([, each]) => each))
  } catch {
    return [] // a private window may have no database
  }
}

/** Pinned conversations first; within both groups the latest first. */
const inOrder = (all: readonly Conversation[]): Conversation[] =>
  all.toSorted(
    (a, b) => Number(b.pinned === true) - Number(a.pinned === true) || b.changedAt - a.changedAt,
  )

/** The stored version of a conversation, which another tab may have changed. */
export async function readConversation(id: string): Promise<Conversation | undefined> {
  const kept = await get<Conversation>(id, store).catch(() => undefined)
  if (kept === undefined) return undefined
  stored.add(id)
  return { ...kept, turns: kept.turns.map(asRead) }
}

/** Marks an answer as interrupted if it was stored when it was asked for, and never since: the page was closed. */
function asRead(turn: Turn): Turn {
  const isOpen = turn.role === 'assistant' && turn.figures === undefined
  return isOpen && turn.problem === undefined ? { ...turn, problem: 'Interrupted' } : turn
}

/**
 * Stores a conversation, of which this tab is filling in the turn `answer`, if any. Throws if the browser cannot, or if
 * the conversation was deleted while it was answered.
 */
export async function keep(conversation: Conversation, answer = ''): Promise<void> {
  const { id } = conversation
  const filling = stored.has(id) ? answer : ''
  await update<Conversation>(id, (kept) => united(kept, conversation, filling), store)
  stored.add(id)
}

/** Changes the title or the pin of a conversation's stored version. */
export async function mark(known: Conversation, marks: Marks): Promise<void> {
  await update<Conversation>(known.id, (kept = known) => ({ ...kept, ...marks }), store)
}

/** Deletes a conversation from the browser's storage. */
export async function forget(id: string): Promise<void> {
  await del(id, store).catch(() => {})
}

/**
 * Merges this tab's conversation with the stored one, to which another tab may have added turns: title and pin are
 * the stored ones. A turn of both is the stored one, except the answer that this tab is filling in.
 */
export function united(kept: Conversation | undefined, shown: Conversation, answer: string) {
  if (kept === undefined) {
    if (answer !== '') throw new Error('The conversation was deleted while it was answered.')
    return shown
  }
  const own = new Map(shown.turns.map((turn) => [turn.id, turn]))
  const known = new Set(kept.turns.map(({ id }) => id))
  const both = kept.turns.map((turn): Turn => (turn.id === answer && own.get(answer)) || turn)
  const added = shown.turns.filter(({ id }) => !known.has(id))
  const { title, pinned = false } = kept
  return { ...shown, title, pinned, turns: [...both, ...added] }
}

type Saved = Omit<MediaFile, 'data'> & { readonly data: string }

/** A conversation as a JSON file: images and sounds are `data:` URLs. */
export async function toJson(conversation: Conversation): Promise<string> {
  const inFile = async (file: Attachment) =>
    isMedia(file) ? { ...file, data: await dataUrlOf(file.data) } : file
  const turns = conversation.turns.map(async (turn) => {
    return { ...turn, ...(turn.files && { files: await Promise.all(turn.files.map(inFile)) }) }
  })
  return JSON.stringify({ ...conversation, turns: await Promise.all(turns) }, null, 2)
}

/** The conversations of a JSON file. Throws if the file has another form. */
export function parseConversations(text: string): Conversation[] {
  const all = [JSON.parse(text) as unknown].flat()
  if (!all.every(isConversation)) throw new Error('not a conversation saved as JSON')
  return all.map((each) => {
    const turns = each.turns.map((turn) => {
      return { ...turn, ...(turn.files && { files: turn.files.map(fromSaved) }) }
    })
    return { ...each, turns }
  })
}

/** Turns the `data:` URLs of {@link toJson} into images and sounds again. */
function fromSaved(file: Attachment | Saved): Attachment {
  if (!('data' in file) || typeof file.data !== 'string') return file as Attachment
  const [, type = '', base64 = ''] = /^data:([^;,]*);base64,(.*)$/.exec(file.data) ?? []
  const bytes = Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0))
  return { ...file, data: new Blob([bytes], { type }) }
}

function isConversation(value: unknown): value is Conversation {
  const { id, title, turns, changedAt } = (value ?? {}) as Partial<Conversation>
  const areTexts = (...all: readonly unknown[]) => all.every((each) => typeof each === 'string')
  const isTurn = ({ id, role, content }: Turn): boolean =>
    areTexts(id, content) && ['user', 'assistant', 'tool'].includes(role)
  const areTurns = Array.isArray(turns) && turns.every(isTurn)
  return areTurns && areTexts(id, title) && changedAt !== undefined
}

/** The page's note at an answer that ended with `length`. */
export const cutOffText = 'Stopped at the limit: max tokens, or the slot is full'

/** The shown branch of a conversation as Markdown. */
export function toMarkdown(conversation: Conversation): string {
  const parts = shownTurns(conversation).map((turn) => {
    const { role, model, content, files = [], calls = [], results = [], finish } = turn
    const name = { user: 'You', tool: 'Results', assistant: model ?? 'Answer' }[role]
    const texts = [
      ...files.map((file) => (isMedia(file) ? `*${file.name}*` : block(file.name, file.text))),
      ...(content === '' ? [] : [content]),
      ...calls.map((call) => block(`Calls ${call.name}`, call.arguments)),
      ...results.map((result) => block(result.name, result.content)),
      ...(finish === 'length' ? [`*${cutOffText}*`] : []),
    ]
    return `## ${name}\n\n${texts.join('\n\n')}\n`
  })
  return [`# ${conversation.title}\n`, ...parts].join('\n')
}

const block = (name: string, text: string): string => `${name}:\n\n\`\`\`\`\n${text}\n\`\`\`\``
