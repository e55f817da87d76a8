import type { ChatMessage, ModelPreset } from '@cllm/core'

/** What comes before every conversation with a model. */
export type Preamble = Pick<ModelPreset, 'system' | 'messages'>

/** A conversation with what comes before it. */
export function withPreamble(
  preamble: Preamble | undefined,
  messages: readonly ChatMessage[],
): readonly ChatMessage[] {
  if (preamble === undefined) return messages
  const { system = '', messages: before = [] } = preamble
  const hasSystem = messages[0]?.role === 'system' || system === ''
  return [...(hasSystem ? [] : [{ role: 'system', content: system }]), ...before, ...messages]
}
