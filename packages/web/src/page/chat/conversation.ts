/** A call of a tool that a model made. */
export interface ToolCall {
  readonly id: string
  readonly name: string
  /** JSON, as far as it has come. */
  readonly arguments: string
}

/** What a call gave. */
export interface ToolResult {
  /** The id of the call. */
  readonly call: string
  /** The name of what was called. */
  readonly name: string
  readonly content: string
}

/** A text that goes with a question. */
export interface TextFile {
  readonly name: string
  readonly text: string
}

/** An image or a sound that goes with a question. */
export interface MediaFile {
  readonly name: string
  readonly type: 'image' | 'audio'
  readonly data: Blob
}

/** What goes with a question. */
export type Attachment = TextFile | MediaFile

/** The most bytes of images and sounds that a conversation keeps: each question sends all of them again. */
export const mostMediaBytes = 20_000_000

/** Tells images and sounds from texts. */
export const isMedia = (file: Attachment): file is MediaFile => 'data' in file

/** The bytes of the images and sounds among files. */
export const mediaBytes = (files: readonly Attachment[]): number =>
  files.reduce((sum, file) => sum + (isMedia(file) ? file.data.size : 0), 0)

/** A `data:` URL of a file's bytes. */
export async function dataUrlOf(data: Blob): Promise<string> {
  const bytes = new Uint8Array(await data.arrayBuffer())
  let letters = ''
  // A call takes a limited number of arguments.
  for (let at = 0; at < bytes.length; at += 8192) {
    letters += String.fromCharCode(...bytes.subarray(at, at + 8192))
  }
  return `data:${data.type};base64,${btoa(letters)}`
}

/** How an answer came. */
export interface AnswerFigures {
  /** Milliseconds from sending to the first text, as the page saw it. */
  readonly firstTokenMs?: number
  readonly tokensPerSecond?: number
  readonly promptTokens?: number
  readonly cachedTokens?: number
  readonly tokens?: number
  /** What the server predicted for the first token, and the place in its queue. */
  readonly predictedMs?: number
  readonly place?: number
}

/** One message of a conversation. */
export interface Turn {
  readonly id: string
  /** The turn before; null of a first one. */
  readonly parent: string | null
  readonly role: 'user' | 'assistant' | 'tool'
  /** Empty where the role is `tool`. */
  readonly content: string
  /** What goes with a question. */
  readonly files?: readonly Attachment[]
  readonly reasoning?: string
  readonly calls?: readonly ToolCall[]
  /** Of all calls of the turn before, where the role is `tool`. */
  readonly results?: readonly ToolResult[]
  readonly model?: string
  /** The other answer to the same question, which is shown beside this one. */
  readonly beside?: string
  readonly figures?: AnswerFigures
  /** The id that the server explains the request by. */
  readonly request?: string
  /** Why the model ended it, in OpenAI's words: `length` is a text that was cut off. */
  readonly finish?: string
  /** Why it is not whole. */
  readonly problem?: string | undefined
}

/** A conversation with all its branches. */
export interface Conversation {
  readonly id: string
  readonly title: string
  /** Milliseconds since the epoch. */
  readonly changedAt: number
  /** Whether it is listed first. */
  readonly pinned?: boolean
  /** The system prompt that it was asked with last. */
  readonly system?: string
  /** In the order in which they came. */
  readonly turns: readonly Turn[]
  /** The last turn of the branch that is shown; null of an empty conversation. */
  readonly leaf: string | null
}

/** A new conversation. */
export const emptyConversation = (id: string, now: number): Conversation => ({
  id,
  title: 'New chat',
  changedAt: now,
  turns: [],
  leaf: null,
})

/** The turns of the branch that is shown, the first one first. */
export function shownTurns({ turns, leaf }: Conversation): Turn[] {
  const byId = new Map(turns.map((turn) => [turn.id, turn]))
  const path: Turn[] = []
  for (let turn = byId.get(leaf ?? ''); turn !== undefined; turn = byId.get(turn.parent ?? '')) {
    path.unshift(turn)
  }
  return path
}

/** Adds a turn, which is shown then; its title is that of its first question. */
export function withTurn(conversation: Conversation, turn: Turn, now: number): Conversation {
  const { turns, title } = conversation
  const isFirst = turns.length === 0
  return {
    ...conversation,
    turns: [...turns, turn],
    leaf: turn.id,
    changedAt: now,
    title: isFirst ? titleOf(turn) : title,
  }
}

/** Changes a turn where it is. */
export function withChange(one: Conversation, id: string, change: Partial<Turn>): Conversation {
  const turns = one.turns.map((turn) => (turn.id === id ? { ...turn, ...change } : turn))
  return { ...one, turns }
}

/** The answers beside each other that a turn is one of, in their order; alone, where it is alone. */
export function answersBeside({ turns }: Conversation, turn: Turn): readonly Turn[] {
  const other = turns.find(({ id }) => id === turn.beside)
  if (other === undefined) return [turn]
  return turns.indexOf(other) < turns.indexOf(turn) ? [other, turn] : [turn, other]
}

/** The turns in the place of this one: itself, and what it was edited or generated again to. */
export const branchesOf = ({ turns }: Conversation, { parent, role }: Turn): Turn[] =>
  turns.filter((other) => other.parent === parent && other.role === role)

/** Shows the branch of this turn, to the end of its latest continuation. */
export function withBranch(conversation: Conversation, id: string): Conversation {
  let leaf = id
  for (;;) {
    const next = conversation.turns.findLast(({ parent }) => parent === leaf)
    if (next === undefined) return { ...conversation, leaf }
    leaf = next.id
  }
}

function titleOf({ content, files = [] }: Turn): string {
  const line = (content.trim() || (files[0]?.name ?? '')).split('\n')[0] ?? ''
  return line.length > 60 ? `${line.slice(0, 59)}…` : line || 'New chat'
}
