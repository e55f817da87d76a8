import type { ToolDefinition } from '../../chat/format/chat-format.js'

const text = { type: 'string' }
const line = { type: 'integer' }
const path = { type: 'string', description: 'An absolute path' }

const editing = (commands: readonly string[], more: object) => ({
  type: 'object',
  properties: {
    command: { type: 'string', enum: commands },
    path,
    view_range: { type: 'array', items: line, description: 'First and last line; -1 is the end' },
    file_text: text,
    old_str: text,
    new_str: text,
    insert_line: line,
    ...more,
  },
  required: ['command'],
})

/** Anthropic's tools that the client runs, by the type without its date: models there know them untold. */
const tools: Readonly<
  Record<string, Pick<ToolDefinition['function'], 'description' | 'parameters'>>
> = {
  bash: {
    description: 'Run a command in a shell that stays open between calls.',
    parameters: {
      type: 'object',
      properties: {
        command: text,
        restart: {
          type: 'boolean',
          description: 'Start a new shell in place of running a command',
        },
      },
    },
  },
  text_editor: {
    description: 'View, create and edit text files.',
    parameters: editing(['view', 'create', 'str_replace', 'insert', 'undo_edit'], {}),
  },
  memory: {
    description: 'Read and write the files under /memories, which later conversations have, too.',
    parameters: editing(['view', 'create', 'str_replace', 'insert', 'delete', 'rename'], {
      insert_text: text,
      old_path: path,
      new_path: path,
    }),
  },
}

/** What a tool of this type is, such as `bash_20250124`; undefined where the client does not run it. */
export const clientTool = (type: string): (typeof tools)[string] | undefined =>
  tools[type.replace(/_\d{8}$/, '')]
