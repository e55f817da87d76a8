import {
  type Attachment,
  type Conversation,
  dataUrlOf,
  isMedia,
  type MediaFile,
  shownTurns,
} from './conversation.js'

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

/** What {@link toJson} wrote, with its images and sounds as they were. */
function fromSaved(file: Attachment | Saved): Attachment {
  if (!('data' in file) || typeof file.data !== 'string') return file as Attachment
  const [, type = '', base64 = ''] = /^data:([^;,]*);base64,(.*)$/.exec(file.data) ?? []
  const bytes = Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0))
  return { ...file, data: new Blob([bytes], { type }) }
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
