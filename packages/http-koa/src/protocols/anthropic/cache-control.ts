import type { EngineClient } from '@cllm/core'
import { z } from 'zod'
import type { PreparedChat } from '../../chat/prepare-chat.js'

/** A client's mark for the end of the part of the prompt to cache. */
export const cacheControl = z
  .object({ type: z.literal('ephemeral', 'ephemeral'), ttl: z.enum(['5m', '1h']).optional() })
  .nullish()

/** The lifetimes of the cache in milliseconds, by Anthropic's names. */
export const lifetimes = { '5m': 5 * 60_000, '1h': 60 * 60_000 } as const

/** The part of a prompt that the marks of a body ask to cache. */
export type Breakpoint = NonNullable<ReturnType<typeof breakpointOf>>

interface Marked {
  readonly cache_control?: unknown
  readonly system?: unknown
  readonly tools?: readonly { readonly cache_control?: unknown }[] | undefined
  readonly messages: readonly { readonly role: string; readonly content: unknown }[]
}

/** The last mark of a body, with the longest lifetime of all marks; undefined: there are none. */
export function breakpointOf(body: Marked) {
  // `message`: the index of the marked message; −1: the system prompt or the tools. `block`: that of the marked block in
  // it; undefined: all of it
  const marks = [
    ...marksIn(body.system).map((mark) => ({ ...mark, message: -1 })),
    // templates put tools anywhere into the system prompt, so that is cached as a whole with them
    ...marksIn(body.tools).map((mark) => ({ ...mark, message: -1, block: undefined })),
    ...body.messages.flatMap(({ content }, message) =>
      marksIn(content).map((mark) => ({ ...mark, message })),
    ),
    ...marksIn([body]).map((mark) => ({
      ...mark,
      message: body.messages.length - 1,
      block: undefined,
    })),
  ]
  const last = marks.at(-1)
  if (last === undefined) return undefined
  /** The lifetime in milliseconds. */
  return { ...last, keepMs: Math.max(...marks.map(({ keepMs }) => keepMs)) }
}

function marksIn(blocks: unknown): { readonly block: number; readonly keepMs: number }[] {
  if (!Array.isArray(blocks)) return []
  return blocks.flatMap((inner: { readonly cache_control?: unknown } | null, block) => {
    const mark = cacheControl.safeParse(inner?.cache_control)
    return mark.success && mark.data ? [{ block, keepMs: lifetimes[mark.data.ttl ?? '5m'] }] : []
  })
}

/** The body up to a mark, with an empty message behind it; undefined if that is the whole body. */
export function upToMark<Body extends Pick<Marked, 'system' | 'messages'>>(
  body: Body,
  { message, block = Infinity }: Breakpoint,
): Body | undefined {
  const cut = <Content>(content: Content): Content =>
    Array.isArray(content) ? (content.slice(0, block + 1) as Content) : content
  if (message < 0) return { ...body, system: cut(body.system), messages: [] }
  const { role, content } = body.messages[message]!
  const isLast = !Array.isArray(content) || block >= content.length - 1
  if (isLast && message === body.messages.length - 1) return undefined
  const messages = [...body.messages.slice(0, message), { role, content: cut(content) }]
  // so that the marked message is not the last: unreadable files in it are left out and not refused, and it is not continued
  messages.push({ role: role === 'user' ? 'assistant' : 'user', content: '' })
  return { ...body, messages }
}

/**
 * The number of tokens of a conversation up to a mark: the tokens that it shares with the conversation up to there.
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
