/** A call of a tool that a model made. */
export interface ToolCall {
  readonly id: string
  readonly name: string
  /** JSON; incomplete while the answer streams in. */
  readonly arguments: string
}

/** The result of a tool call. */
export interface ToolResult {
  /** The id of the tool call. */
  readonly call: string
  /** The name of the called tool. */
  readonly name: string
  readonly content: string
}

/** A text file attached to a question. */
export interface TextFile {
  readonly name: string
  readonly text: string
}

/** An image or a sound attached to a question. */
export interface MediaFile {
  readonly name: string
  readonly type: 'image' | 'audio'
  readonly data: Blob
}

/** A file attached to a question. */
export type Attachment = TextFile | MediaFile

/** The most bytes of images and sounds in a conversation: each question sends all of them again. */
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
  // In parts, because a call takes a limited number of arguments.
  for (let at = 0; at < bytes.length; at += 8192) {
    letters += String.fromCharCode(...bytes.subarray(at, at + 8192))
  }
  return `data:${data.type};base64,${btoa(letters)}`
}

/** Times and counts of an answer. */
export interface AnswerFigures {
  /** Milliseconds from sending the question to the first text, measured by the page. */
  readonly firstTokenMs?: number
  readonly tokensPerSecond?: number
  readonly promptTokens?: number
  readonly cachedTokens?: number
  readonly tokens?: number
  /** The server's prediction of the milliseconds to the first token; `place` is the place in its queue. */
  readonly predictedMs?: number
  readonly place?: number
}

/** One message of a conversation. */
export interface Turn {
  readonly id: string
  /** The id of the turn before; null for a first turn. */
  readonly parent: string | null
  readonly role: 'user' | 'assistant' | 'tool'
  /** Empty where the role is `tool`. */
  readonly content: string
  /** Files attached to a question. */
  readonly files?: readonly Attachment[]
  readonly reasoning?: string
  readonly calls?: readonly ToolCall[]
  /** If the role is `tool`: the results of all tool calls of the turn before. */
  readonly results?: readonly ToolResult[]
  readonly model?: string
  /** The id of the other answer to the same question, shown beside this one. */
  readonly beside?: string
  readonly figures?: AnswerFigures
  /** The request's id, with which the server explains its scheduling. */
  readonly request?: string
  /** OpenAI's `finish_reason`: `length` means that the text was cut off. */
  readonly finish?: string
  /** Why the answer is incomplete. */
  readonly problem?: string | undefined
}

/** A conversation with all its branches. */
export interface Conversation {
  readonly id: string
  readonly title: string
  /** Time of the last change, in milliseconds since the epoch. */
  readonly changedAt: number
  /** Whether the conversation is listed first. */
  readonly pinned?: boolean
  /** The system prompt of the last question. */
  readonly system?: string
  /** The turns of all branches, in the order in which they were made. */
  readonly turns: readonly Turn[]
  /** The id of the last turn of the branch that is shown; null for an empty conversation. */
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

/** Adds a turn, and shows its branch. The first question becomes the title. */
export function withTurn(conversation: Conversation, turn: Turn, now: number): Conversation {
  const turns = [...conversation.turns, turn]
  const title = turns.length === 1 ? titleOf(turn) : conversation.title
  return { ...conversation, turns, leaf: turn.id, changedAt: now, title }
}

/** Replaces fields of a turn, which keeps its place. */
export function withChange(one: Conversation, id: string, change: Partial<Turn>): Conversation {
  const turns = one.turns.map((turn) => (turn.id === id ? { ...turn, ...change } : turn))
  return { ...one, turns }
}

/** The turn and the answer shown beside it, if there is one, in their order. */
export function answersBeside({ turns }: Conversation, turn: Turn): readonly Turn[] {
  const other = turns.find(({ id }) => id === turn.beside)
  if (other === undefined) return [turn]
  return turns.indexOf(other) < turns.indexOf(turn) ? [other, turn] : [turn, other]
}

/** The alternatives of a turn: the turn itself, and its edited or regenerated versions. */
export const branchesOf = ({ turns }: Conversation, { parent, role }: Turn): Turn[] =>
  turns.filter((other) => other.parent === parent && other.role === role)

/** Shows the branch of this turn, up to the last turn of its latest continuation. */
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
