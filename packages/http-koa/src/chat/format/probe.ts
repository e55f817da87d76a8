import type { ChatMessage, ChatToolCall } from '@cllm/core'
import { commonStart, isTag, segmentsOf, withoutStart } from './chat-format.js'

/** Renders a conversation; undefined if the template refuses it. */
export type RenderProbe = (
  messages: readonly ChatMessage[],
  options?: {
    readonly addGenerationPrompt?: boolean
    readonly variables?: Readonly<Record<string, unknown>>
  },
) => Promise<string | undefined>

/** The texts of the probes, none of which occurs in a template. */
export const probe = {
  user: 'Probeuserwords',
  content: 'Probecontentwords',
  reasoning: 'Probereasoningwords',
  tools: ['probe_first', 'probe_second'],
  keys: ['aa_probekey', 'bb_probekey'],
  text: 'Probevaluewords',
  number: 73519,
} as const

const parameters = {
  type: 'object',
  properties: {
    [probe.keys[0]]: { type: 'string', description: 'A text' },
    [probe.keys[1]]: { type: 'integer', description: 'A number' },
  },
  required: [...probe.keys],
}

/** The tools that the probes call. */
export const probeTools = probe.tools.map((name) => ({
  type: 'function',
  function: { name, description: `Does ${name}`, parameters },
}))

/** The arguments of all calls. */
export const probeArguments = { [probe.keys[0]]: probe.text, [probe.keys[1]]: probe.number }

/** Variants of a probe, for templates that only render some of them. */
export interface ProbeStyle {
  /** Whether arguments are JSON text, which some templates write as it is. */
  readonly asText: boolean
  /** The id of the call with this index. */
  readonly id: (index: number) => string
}

/** The variants: ids of nine letters and digits, which every template takes, and ids that contain the name. */
export const probeStyles: readonly ProbeStyle[] = [false, true].flatMap((asText) => [
  { asText, id: (index: number) => `prb00000${index}` },
  { asText, id: (index: number) => `functions.${probe.tools[index] ?? ''}:${index}` },
])

/** The user's message and this one of the assistant. */
const dialog = (message: Omit<ChatMessage, 'role'>): ChatMessage[] => [
  { role: 'user', content: probe.user },
  { role: 'assistant', ...message },
]

/** A number of calls in this style. */
export const probeCalls = (count: number, { asText, id }: ProbeStyle): ChatToolCall[] =>
  probe.tools.slice(0, count).map((name, index) => ({
    id: id(index),
    type: 'function',
    function: {
      name,
      arguments: (asText
        ? JSON.stringify(probeArguments)
        : probeArguments) as ChatToolCall['function']['arguments'],
    },
  }))

/** The text that a template writes around the assistant's answer. */
export interface Turn {
  /** The end of the prompt, from the user's words on. */
  readonly prompt: string
  /** From the user's words to where the assistant's begin. */
  readonly header: string
  /** Between the header and an answer's text. */
  readonly before: string
  /** Behind an answer's text. */
  readonly after: string
  /** The rendered text of an assistant's message, behind the header. */
  shown(message: Omit<ChatMessage, 'role'>, variables?: object): Promise<string | undefined>
}

/** Renders an answer that is text, and what comes before it. */
export async function learnTurn(render: RenderProbe): Promise<Turn | undefined> {
  const behindUser = async (
    messages: readonly ChatMessage[],
    variables: object = {},
    addGenerationPrompt = false,
  ) => {
    const all = { tools: probeTools, ...variables }
    const text = await render(messages, { addGenerationPrompt, variables: all })
    const at = text?.indexOf(probe.user) ?? -1
    return text === undefined || at < 0 ? undefined : text.slice(at + probe.user.length)
  }
  const [user] = dialog({ content: '' })
  const prompt = await behindUser([user!], {}, true)
  const plain = await behindUser(dialog({ content: probe.content }))
  if (prompt === undefined || plain === undefined) return undefined
  const at = plain.indexOf(probe.content)
  if (at < 0) return undefined
  const header = headerOf(prompt, plain.slice(0, at))
  return {
    prompt,
    header,
    before: plain.slice(header.length, at),
    after: plain.slice(at + probe.content.length),
    shown: async (message, variables) => {
      const text = await behindUser(dialog(message), variables)
      if (text === undefined) return undefined
      return withoutStart(text, commonStart(text, header))
    },
  }
}

/** The header, without an opening of the reasoning that the template leaves out of answers without reasoning. */
function headerOf(prompt: string, beforeContent: string): string {
  const common = commonStart(prompt, beforeContent)
  // a tag of the reasoning that both texts have is not part of the header
  const pieces = segmentsOf(common)
  const first = pieces.findIndex((piece) => isTag(piece) && /think|thought/i.test(piece))
  return first < 0 ? common : pieces.slice(0, first).join('')
}
