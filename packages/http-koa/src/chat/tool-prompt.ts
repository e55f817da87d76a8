import { createHash } from 'node:crypto'
import type { ChatMessage } from '@cllm/core'
import type { ChatFormat } from './format/chat-format.js'

/** A tool as chat templates know it. */
export interface ToolDefinition {
  readonly type: 'function'
  readonly function: {
    readonly name: string
    readonly description?: string | undefined
    readonly parameters?: Readonly<Record<string, unknown>> | undefined
  }
}

/** A tool of a client, whose description and parameters may be left out. */
export const toTool = (tool: {
  readonly name: string
  readonly description?: string | null | undefined
  readonly parameters?: Readonly<Record<string, unknown>> | null | undefined
}): ToolDefinition => ({
  type: 'function',
  function: {
    name: tool.name,
    ...(typeof tool.description === 'string' ? { description: tool.description } : {}),
    ...(tool.parameters ? { parameters: tool.parameters } : {}),
  },
})

/** The input of a template. */
export interface ToolPrompt {
  readonly messages: readonly ChatMessage[]
  readonly variables: Readonly<Record<string, unknown>>
}

/** Adds the tools to the prompt: through the template, or in a system message if it has no tools. */
export function promptWithTools(
  messages: readonly ChatMessage[],
  tools: readonly ToolDefinition[],
  { showsTools, shortIds }: Pick<ChatFormat, 'showsTools' | 'shortIds'>,
): ToolPrompt {
  if (showsTools) {
    const variables = tools.length === 0 ? {} : { tools }
    return { messages: shortIds ? messages.map(withShortIds) : messages, variables }
  }
  const plain = messages.map(inWords)
  if (tools.length === 0) return { messages: plain, variables: {} }
  const [first, ...others] = plain
  if (first?.role !== 'system') {
    return { messages: [{ role: 'system', content: instructions(tools) }, ...plain], variables: {} }
  }
  const content = `${first.content}\n\n${instructions(tools)}`
  return { messages: [{ ...first, content }, ...others], variables: {} }
}

const instructions = (tools: readonly ToolDefinition[]): string =>
  `You can call these tools:\n${tools.map((tool) => JSON.stringify(tool.function)).join('\n')}\n` +
  `To call one, answer with nothing but JSON: {"name": "the tool", "arguments": {…}}`

/** Mistral's templates take ids of nine letters and digits only. */
function withShortIds(message: ChatMessage): ChatMessage {
  const { tool_calls: calls, tool_call_id: answered } = message
  return {
    ...message,
    ...(calls && { tool_calls: calls.map((call) => ({ ...call, id: shortId(call.id ?? '') })) }),
    ...(answered !== undefined && { tool_call_id: shortId(answered) }),
  }
}

const shortId = (id: string): string =>
  /^[a-zA-Z0-9]{9}$/.test(id) ? id : createHash('sha256').update(id).digest('hex').slice(0, 9)

/** Calls and results as plain text, for templates without tools. */
function inWords({ role, content, name, tool_calls: calls }: ChatMessage): ChatMessage {
  if (role === 'tool') {
    return { role: 'user', content: `Result of ${name ?? 'the tool'}: ${content}` }
  }
  if (calls === undefined || calls.length === 0) return { role, content }
  const called = calls.map((call) => JSON.stringify(call.function)).join('\n')
  return { role, content: content === '' ? called : `${content}\n${called}` }
}
