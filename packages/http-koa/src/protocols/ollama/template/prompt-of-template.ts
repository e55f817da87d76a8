import type { ChatMessage, EngineClient, TokenId } from '@cllm/core'
import type { ToolDefinition } from '../../../chat/format/chat-format.js'
import { beginsWith } from '../../../request/prompt-text.js'
import { renderGoTemplate, renderTurns, type TemplatePiece } from './render-go-template.js'
import { TemplateObject } from './template-values.js'

/** A conversation for a template of Ollama's. */
export interface TemplateChat {
  readonly messages: readonly ChatMessage[]
  readonly tools: readonly ToolDefinition[]
  readonly think?: boolean | string | undefined
  readonly suffix?: string | undefined
  /** Milliseconds since the epoch, for templates that show the date. */
  readonly now: number
}

/**
 * The prompt that a template makes of a conversation. What it shows is text, also where that looks like
 * a special token.
 *
 * @param limit - characters of the prompt
 * @throws `unsupported` or `invalid_request`, as {@link renderGoTemplate} does
 */
export async function promptOfTemplate(
  client: EngineClient,
  template: string,
  chat: TemplateChat,
  limit: number,
): Promise<{ readonly tokens: TokenId[]; readonly text: string }> {
  const pieces = piecesOf(template, chat, limit)
  const [start, ...parts] = await Promise.all([
    client.tokenize(''),
    ...pieces.map(({ text, isValue }) =>
      client.tokenize(text, { addBos: false, special: !isValue }),
    ),
  ])
  const tokens = parts.flat()
  // a template may say itself how a prompt begins
  return {
    tokens: beginsWith(tokens, start) ? tokens : [...start, ...tokens],
    text: pieces.map(({ text }) => text).join(''),
  }
}

/** A template that does not go through the messages itself is for one turn: it is rendered for each. */
function piecesOf(template: string, chat: TemplateChat, limit: number): readonly TemplatePiece[] {
  const messages = merged(chat.messages)
  const values = valuesOf({ ...chat, messages })
  if (/\.Messages\b/.test(template)) return renderGoTemplate(template, values, limit, chat.now)
  const turns = turnsOf(messages).map((turn) => ({ ...values, ...turn }))
  // as Ollama does it where a template does not say where the answer stands
  const whole = /\.Response\b/.test(template) ? template : `${template}{{ .Response }}`
  return renderTurns(whole, turns, limit, chat.now)
}

/** Neighbours that one role says are one message, but for calls and the results of tools. */
function merged(messages: readonly ChatMessage[]): readonly ChatMessage[] {
  const all: ChatMessage[] = []
  for (const message of messages) {
    const last = all.at(-1)
    const isMore =
      last?.role === message.role &&
      message.role !== 'tool' &&
      [...(last.tool_calls ?? []), ...(message.tool_calls ?? [])].length === 0
    if (!isMore) all.push(message)
    else if (message.content !== '') {
      all[all.length - 1] = { ...last, content: `${last.content}\n\n${message.content}` }
    }
  }
  return all
}

/** What the system and the user say, and the answer, turn by turn. */
function turnsOf(messages: readonly ChatMessage[]) {
  const empty = { System: '', Prompt: '', Response: '' }
  const turns: (typeof empty)[] = []
  let turn = empty
  const names = { system: 'System', assistant: 'Response' } as const
  for (const { role, content } of messages) {
    const name = role === 'system' || role === 'assistant' ? names[role] : 'Prompt'
    const isNext = turn.Response !== '' || (name !== 'Response' && turn.Prompt !== '')
    if (isNext) turns.push(turn)
    if (isNext) turn = empty
    turn = { ...turn, [name]: content }
  }
  return [...turns, turn]
}

function valuesOf({ messages, tools, think, suffix = '' }: TemplateChat) {
  const last = messages.findLast(({ role }) => role === 'user')?.content ?? ''
  return {
    System: messages
      .filter(({ role }) => role === 'system')
      .map(({ content }) => content)
      .join('\n\n'),
    Prompt: last,
    Suffix: suffix,
    Messages: messages.map(messageOf),
    Tools: tools.map(toolOf),
    Think: think !== undefined && think !== false,
    ThinkLevel: typeof think === 'string' ? think : '',
    IsThinkSet: think !== undefined,
  }
}

function messageOf(message: ChatMessage): TemplateObject {
  const { role, content, tool_calls: calls = [], reasoning_content: thinking = '' } = message
  return new TemplateObject(
    {
      Role: role,
      Content: content,
      Thinking: thinking,
      ToolName: message.name ?? '',
      ToolCallID: message.tool_call_id ?? '',
      Images: [],
      ToolCalls: calls.map(({ id = '', function: called }, index) => {
        const { name, arguments: given } = called
        const members = { Name: name, Arguments: given, Index: index }
        const Function = new TemplateObject(members, called)
        return new TemplateObject({ ID: id, Function }, { function: called })
      }),
    },
    message,
  )
}

type Schema = Readonly<Record<string, unknown>>

function toolOf(tool: ToolDefinition): TemplateObject {
  const { name, description = '', parameters = {} } = tool.function
  const Function = new TemplateObject(
    { Name: name, Description: description, Parameters: parametersOf(parameters) },
    tool.function,
  )
  return new TemplateObject({ Type: tool.type, Function }, tool)
}

function parametersOf(schema: Schema): TemplateObject {
  const { type = 'object', required = [], properties = {}, items, $defs } = schema
  const all = Object.entries(properties as Schema).map(([name, inner]) => {
    const { type: kind = '', description = '', enum: values = [] } = (inner ?? {}) as Schema
    const members = {
      Type: Array.isArray(kind) && kind.length === 1 ? (kind[0] as unknown) : kind,
      Description: description,
      Enum: values,
      Items: (inner as Schema | null)?.['items'] ?? null,
    }
    return [name, new TemplateObject(members, inner)]
  })
  const members = { Type: type, Required: required, Items: items ?? null, Defs: $defs ?? null }
  return new TemplateObject({ ...members, Properties: Object.fromEntries(all) as object }, schema)
}
