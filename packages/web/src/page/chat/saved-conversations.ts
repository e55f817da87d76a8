import { createStore, del, entries, get, update } from 'idb-keyval'
import { dataUrlOf, isMedia, shownTurns } from './conversation.js'
import type { Attachment, Conversation, MediaFile, Turn } from './conversation.js'

/** What a conversation is called in the list, and whether it comes first there. */
export type Marks = Pick<Partial<Conversation>, 'title' | 'pinned'>

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

/** Keeps a conversation in this browser, whose turn `answer`, if any, is this tab's. Throws where the browser does not. */
export async function keep(conversation: Conversation, answer = ''): Promise<void> {
  const { id } = conversation
  await update<Conversation>(id, (kept) => united(kept, conversation, answer), store)
}

/** Changes the title of a conversation as it is kept now, or whether it is listed first. */
export async function mark(known: Conversation, marks: Marks): Promise<void> {
  await update<Conversation>(known.id, (kept = known) => ({ ...kept, ...marks }), store)
}

/** Forgets a conversation. */
export async function forget(id: string): Promise<void> {
  await del(id, store).catch(() => {})
}

/**
 * A conversation with what another tab has added to the kept one meanwhile, and what that called it. A turn of both
 * is as it was kept, but for the answer that this tab is filling in: nothing else changes a turn.
 */
export function united(kept: Conversation | undefined, shown: Conversation, answer: string) {
  if (kept === undefined) return shown
  const own = new Map(shown.turns.map((turn) => [turn.id, turn]))
  const known = new Set(kept.turns.map(({ id }) => id))
  const both = kept.turns.map((turn): Turn => (turn.id === answer && own.get(answer)) || turn)
  const added = shown.turns.filter(({ id }) => !known.has(id))
  const { title, pinned = false } = kept
  return { ...shown, title, pinned, turns: [...both, ...added] }
}

type Saved = Omit<MediaFile, 'data'> & { readonly data: string }

/** A conversation as a file keeps it: images and sounds as `data:` URLs. */
export async function toJson(conversation: Conversation): Promise<string> {
  const inFile = async (file: Attachment) =>
    isMedia(file) ? { ...file, data: await dataUrlOf(file.data) } : file
  const turns = conversation.turns.map(async (turn) => {
    return { ...turn, ...(turn.files && { files: await Promise.all(turn.files.map(inFile)) }) }
  })
  return JSON.stringify({ ...conversation, turns: await Promise.all(turns) }, null, 2)
}

/** The conversations of a file that was saved. Throws where it is none. */
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

/** What {@link toJson} wrote, with its images and sounds as they were. */
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

/** What is said of an answer that ended with `length`. */
export const cutOffText = 'Stopped at the limit: max tokens, or the slot is full'

/** A conversation as Markdown: the branch that is shown. */
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
