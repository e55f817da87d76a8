import { type Conversation, shownTurns } from './conversation.js'
import { isMedia } from './media-files.js'

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
