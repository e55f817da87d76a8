import type { ChatMessage, ChatRenderOptions } from '@cllm/core'

/** A conversation and what the model was trained to see of it. */
export interface RenderedCase {
  readonly about: string
  readonly messages: readonly ChatMessage[]
  readonly options?: ChatRenderOptions
  readonly text: string
}

/**
 * A model family's format. The templates are written for these tests after the families' own
 * documentation; `text` is what the families' published templates give for the same conversations
 * (compared in November 2026 where `compared` says so).
 */
export interface TemplateFixture {
  readonly name: string
  readonly source: string
  readonly compared: boolean
  readonly bos?: string
  readonly eos: string
  /** Other control tokens. */
  readonly controls: readonly string[]
  readonly template: string
  readonly cases: readonly RenderedCase[]
}

export const system = { role: 'system', content: 'Be brief.' }
export const user = { role: 'user', content: 'Hello' }
export const assistant = { role: 'assistant', content: 'Hi!' }
export const question = { role: 'user', content: 'Rain in Paris?' }
export const turns = [system, user, assistant, question]
export const open = [user, { role: 'assistant', content: 'Hi, I' }]
export const closed = { addGenerationPrompt: false }
export const goOn = { continueFinalMessage: true }

const tool = {
  type: 'function',
  function: {
    name: 'weather',
    description: 'Tells the weather',
    parameters: { type: 'object', properties: { city: { type: 'string' } } },
  },
}
export const toolJson =
  '{"type": "function", "function": {"name": "weather", "description": "Tells the weather", ' +
  '"parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}}'
export const withTools = { variables: { tools: [tool] } }
const call = {
  id: 'abc123def',
  type: 'function',
  function: { name: 'weather', arguments: { city: 'Paris' } },
} as const
export const called = [
  question,
  { role: 'assistant', content: '', tool_calls: [call] },
  { role: 'tool', content: '"rain"', name: 'weather', tool_call_id: 'abc123def' },
]

/** The turns of a format that has an opening for each role and one end. */
export const lines = (...parts: readonly string[]): string => parts.join('')
