import type { ChatMessage, ChatToolCall } from '@cllm/core'

/** Renders a conversation; undefined where the template refuses it. */
export type RenderProbe = (
  messages: readonly ChatMessage[],
  options?: {
    readonly addGenerationPrompt?: boolean
    readonly variables?: Readonly<Record<string, unknown>>
  },
) => Promise<string | undefined>

/** What the probes say: each occurs nowhere in a template. */
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

/** What differs where a template shows nothing otherwise. */
export interface ProbeStyle {
  /** Arguments as JSON text, which some templates put out as it is. */
  readonly asText: boolean
  /** The id of the call with this index. */
  readonly id: (index: number) => string
}

/** Ids of nine letters and digits, which every template takes; and those that hold the name. */
export const probeStyles: readonly ProbeStyle[] = [false, true].flatMap((asText) => [
  { asText, id: (index: number) => `prb00000${index}` },
  { asText, id: (index: number) => `functions.${probe.tools[index] ?? ''}:${index}` },
])

/** The user's message and this one of the assistant. */
export const dialog = (message: Omit<ChatMessage, 'role'>): ChatMessage[] => [
  { role: 'user', content: probe.user },
  { role: 'assistant', ...message },
]

/** This many calls. */
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
