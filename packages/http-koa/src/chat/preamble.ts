import type { ChatMessage } from '@cllm/core'

/** What comes before every conversation with a model. */
export interface Preamble {
  /** Counts where the client says nothing as the system. */
  readonly system?: string | undefined
  readonly messages: readonly ChatMessage[]
}

/** A conversation with what comes before it. */
export function withPreamble(
  preamble: Preamble | undefined,
  messages: readonly ChatMessage[],
): readonly ChatMessage[] {
  if (preamble === undefined) return messages
  const { system = '', messages: before } = preamble
  const hasSystem = messages[0]?.role === 'system' || system === ''
  return [...(hasSystem ? [] : [{ role: 'system', content: system }]), ...before, ...messages]
}
