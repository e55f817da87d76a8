import type { ChatMessage } from '@cllm/core'

/** What comes before every conversation with a model. */
export interface Preamble {
  /** Counts where the client says nothing as the system. */
  readonly system?: string | undefined
  readonly messages: readonly ChatMessage[]
}

/** A preamble as a detail of a model's, which are texts and numbers. */
export const preambleDetail = ({ system, messages }: Preamble): { readonly preamble: string } => ({
  preamble: JSON.stringify({ system, messages }),
})

/** The preamble that a model's details hold, if any. */
export function preambleOf(
  details: Readonly<Record<string, unknown>> | undefined,
): Preamble | undefined {
  const { preamble } = details ?? {}
  return typeof preamble === 'string' ? (JSON.parse(preamble) as Preamble) : undefined
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
