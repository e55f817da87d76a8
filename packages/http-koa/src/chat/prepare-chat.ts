import { createHash } from 'node:crypto'
import type { ChatMessage, ChatRenderOptions, EngineClient, ModelPreset, Prompt } from '@cllm/core'
import { defined } from '@cllm/core'
import type { AnswerForm } from './answer/create-answer-parser.js'
import type { ChatFormat, ToolDefinition } from './format/chat-format.js'
import { behind, shownMessages } from './message-content.js'
import { knownTemplate, type PromptEnd, promptEndOf } from './format/known-templates.js'

/** A conversation to answer. */
export interface Chat {
  readonly messages: readonly ChatMessage[]
  readonly tools: readonly ToolDefinition[]
  /**
   * Whether the answer may call them; default true. Otherwise templates show them nevertheless, so that the prompt begins
   * like the conversation's other prompts, and its cached prefix is found.
   */
  readonly mayCall?: boolean | undefined
  /** Names of the strict tools, whose arguments must match their schemas. */
  readonly strict?: readonly string[] | undefined
  readonly template: ChatRenderOptions
  /** The most tool calls in an answer; default: any number. */
  readonly mostCalls?: number | undefined
  /** What precedes the messages; default: that of the preset by which the model was opened. */
  readonly preamble?: Preamble
}

/** A conversation for the engine, and the form of its answer. */
export interface PreparedChat {
  readonly prompt: Extract<Prompt, { messages: unknown }>
  readonly form: AnswerForm
  /** The marks that the model may write around text, reasoning and calls. */
  readonly marks?: readonly string[] | undefined
  /** Names of the strict tools; absent: none. */
  readonly strict?: readonly string[] | undefined
}

/** Prepares a conversation: puts the tools into the prompt as the model's template expects them. */
export async function prepareChat(client: EngineClient, chat: Chat): Promise<PreparedChat> {
  const { mayCall = true, template, mostCalls, strict = [], preamble = client.preset } = chat
  const tools = mayCall ? chat.tools : []
  const info = await client.info()
  const given = shownMessages(chat.messages, info.model)
  const known = await knownTemplate(client, info)
  const { format, marks } = known
  const before = preamble === undefined ? given : withPreamble(preamble, given)
  const inPrompt = format.showsTools ? chat.tools : tools
  const { messages, variables: shown } = promptWithTools(before, inPrompt, format)
  // the operator's setting, if the client has none
  const { reasoning } = info.model.details ?? {}
  const thinks = reasoning === undefined ? {} : thinkingVariables(reasoning)
  const variables = { ...thinks, ...template.variables, ...shown }
  const isNew = template.continueFinalMessage !== true && template.addGenerationPrompt !== false
  const { thinkingIsOpen, suffix }: PromptEnd =
    isNew && format.thinking !== undefined
      ? await promptEndOf(client, known, variables)
      : { thinkingIsOpen: false }
  const form: AnswerForm = {
    tools,
    ...(mostCalls === undefined ? {} : { mostCalls }),
    format,
    thinks: format.thinking !== undefined,
    thinkingIsOpen,
  }
  const prompt = { messages, template: { ...template, variables, ...defined({ suffix }) } }
  return { prompt, form, marks, ...(strict.length > 0 && { strict }) }
}

/** What precedes every conversation with a model. */
export type Preamble = Pick<ModelPreset, 'system' | 'messages'>

/** A conversation with its preamble. */
function withPreamble(
  { system = '', messages: before = [] }: Preamble,
  messages: readonly ChatMessage[],
): readonly ChatMessage[] {
  const hasSystem = messages[0]?.role === 'system' || system === ''
  return [...(hasSystem ? [] : [{ role: 'system', content: system }]), ...before, ...messages]
}

/** How much a client can ask a model to think. */
export const efforts = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh'] as const

/**
 * The template variables for whether and how much to think; templates use different names for them.
 */
export function thinkingVariables(
  effort: boolean | string | null | undefined,
): Readonly<Record<string, unknown>> {
  if (effort === undefined || effort === null) return {}
  const thinks = effort !== false && effort !== 'none'
  return {
    enable_thinking: thinks,
    thinking: thinks,
    ...(typeof effort === 'string' && thinks ? { reasoning_effort: effort } : {}),
  }
}

/** Adds the tools to the prompt: through the template, or in a system message if it has no tools. */
export function promptWithTools(
  messages: readonly ChatMessage[],
  tools: readonly ToolDefinition[],
  { showsTools, shortIds }: Pick<ChatFormat, 'showsTools' | 'shortIds'>,
) {
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

/** A message with calls and results as plain text, for templates without tools. */
function inWords({ role, content, name, tool_calls: calls, media }: ChatMessage): ChatMessage {
  if (role === 'tool') {
    const said = { content, ...defined({ media }) }
    return { role: 'user', ...behind(`Result of ${name ?? 'the tool'}: `, said) }
  }
  if (calls === undefined || calls.length === 0) return { role, content, ...defined({ media }) }
  const called = calls.map((call) => JSON.stringify(call.function)).join('\n')
  return { role, content: content === '' ? called : `${content}\n${called}` }
}

/** The share of a slot that is reserved for the answer. */
const roomForAnswer = 1 / 8

/**
 * Drops the oldest messages of a conversation until it fits into the slot with some room for the answer. System messages
 * and the last message stay, and no tool's result stays without its call. A conversation that fits is returned as it is;
 * one whose last message does not fit is refused later.
 */
export async function fitConversation(client: EngineClient, chat: Chat): Promise<Chat> {
  const { limits } = await client.info()
  const most = Math.ceil(limits.contextSize * (1 - roomForAnswer))
  const fits = async (messages: readonly ChatMessage[]): Promise<boolean> => {
    // each message has at least one token
    if (messages.length > most) return false
    const { prompt } = await prepareChat(client, { ...chat, messages })
    const { tokens } = await client.applyTemplate(prompt.messages, prompt.template)
    return tokens.length <= most
  }
  if (await fits(chat.messages)) return chat
  const others = chat.messages.filter(({ role }) => role !== 'system').length
  let high = Math.max(0, others - 1)
  let low = Math.min(1, high)
  while (low < high) {
    const middle = (low + high) >> 1
    if (await fits(without(chat.messages, middle))) high = middle
    else low = middle + 1
  }
  return { ...chat, messages: without(chat.messages, high) }
}

/** The messages without the first `count` that are no system messages. */
function without(messages: readonly ChatMessage[], count: number): readonly ChatMessage[] {
  const others = messages.filter(({ role }) => role !== 'system')
  let first = count
  // a tool's result is dropped with the call before it
  while (others[first]?.role === 'tool' && others[first] !== messages.at(-1)) first++
  const gone = new Set(others.slice(0, first))
  return messages.filter((message) => !gone.has(message))
}
