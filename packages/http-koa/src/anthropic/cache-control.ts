import type { EngineClient } from '@cllm/core'
import { z } from 'zod'
import type { PreparedChat } from '../chat/prepare-chat.js'

/** Where a client marks the end of what is to be kept. */
export const cacheControl = z
  .object({ type: z.literal('ephemeral', 'ephemeral'), ttl: z.enum(['5m', '1h']).optional() })
  .nullish()

const lifetimes = { '5m': 5 * 60_000, '1h': 60 * 60_000 } as const

/** What the marks of a body ask for. */
export interface Breakpoint {
  /** The last marked message's index; −1: the system prompt or the tools. */
  readonly message: number
  /** Milliseconds that it is kept. */
  readonly keepMs: number
}

interface Marked {
  readonly cache_control?: unknown
  readonly system?: unknown
  readonly tools?: readonly { readonly cache_control?: unknown }[] | undefined
  readonly messages: readonly { readonly content: unknown }[]
}

/** The last mark of a body, and the longest time that one asks for; undefined: it has none. */
export function breakpointOf(body: Marked): Breakpoint | undefined {
  const last = body.messages.length - 1
  const marks = [
    { message: last, lives: timesIn([body]) },
    { message: -1, lives: [...timesIn(body.system), ...timesIn(body.tools)] },
    ...body.messages.map(({ content }, message) => ({ message, lives: timesIn(content) })),
  ].filter(({ lives }) => lives.length > 0)
  if (marks.length === 0) return undefined
  return {
    message: Math.max(...marks.map(({ message }) => message)),
    keepMs: Math.max(...marks.flatMap(({ lives }) => lives)),
  }
}

function timesIn(blocks: unknown): number[] {
  if (!Array.isArray(blocks)) return []
  return blocks.flatMap((block: { readonly cache_control?: unknown } | null) => {
    const mark = cacheControl.safeParse(block?.cache_control)
    return mark.success && mark.data ? [lifetimes[mark.data.ttl ?? '5m']] : []
  })
}

/**
 * How many tokens a conversation begins with up to a mark: what it shares with the conversation up to
 * there.
 *
 * @param upTo - the conversation up to the mark
 */
export async function tokensUpTo(
  client: EngineClient,
  { prompt: whole }: PreparedChat,
  { prompt: upTo }: PreparedChat,
): Promise<number> {
  const [all, part] = await Promise.all(
    [whole, upTo].map(
      async ({ messages, template }) => await client.applyTemplate(messages, template),
    ),
  )
  const differs = all!.tokens.findIndex((token, index) => token !== part!.tokens[index])
  return differs === -1 ? all!.tokens.length : differs
}
