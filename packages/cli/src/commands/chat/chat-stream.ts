import { errorOf, type ServerClient } from '../server/server-client.js'

/** A message of a conversation. */
export interface Message {
  readonly role: 'system' | 'user' | 'assistant'
  readonly content: string
}

/** How an answer went, in the server's words. */
export interface AnswerEnd {
  readonly type: 'end'
  /** Such as `stop` or `length`. */
  readonly reason: string
  readonly promptTokens: number
  readonly cachedTokens: number
  readonly tokens: number
  /** Milliseconds from the request's admission to its first token. */
  readonly promptMs: number
  /** Milliseconds from the first token to the last. */
  readonly answerMs: number
}

/** A piece of an answer; `thinking` is the model's reasoning. */
export type AnswerPart = { readonly type: 'text' | 'thinking'; readonly text: string } | AnswerEnd

interface Chunk {
  readonly choices?: readonly {
    readonly delta?: {
      readonly content?: string | null
      readonly reasoning_content?: string | null
    }
    readonly finish_reason?: string | null
  }[]
  readonly usage?: {
    readonly prompt_tokens: number
    readonly completion_tokens: number
    readonly prompt_tokens_details?: { readonly cached_tokens: number }
  } | null
  readonly timings?: { readonly prompt_ms: number; readonly predicted_ms: number }
  readonly error?: unknown
}

/** A conversation to answer: the fields of `POST /v1/chat/completions`. */
export interface ChatBody {
  readonly model: string
  readonly messages: readonly Message[]
  readonly [field: string]: unknown
}

/**
 * Streams an answer from `POST /v1/chat/completions`; the last part is its end.
 *
 * @throws CllmError the server's error, and the signal's reason when it is aborted
 */
export async function* streamAnswer(
  client: ServerClient,
  body: ChatBody,
  signal: AbortSignal,
): AsyncGenerator<AnswerPart> {
  const asked = { ...body, stream: true, stream_options: { include_usage: true } }
  let reason = 'stop'
  for await (const event of client.events('/v1/chat/completions', asked, signal)) {
    const { choices = [], usage, timings, error } = event as Chunk
    if (error !== undefined) throw errorOf(streamFailure, JSON.stringify(event))
    const [choice] = choices
    const { delta = {} } = choice ?? {}
    const [content, thinking] = [delta.content ?? '', delta.reasoning_content ?? '']
    if (thinking !== '') yield { type: 'thinking', text: thinking }
    if (content !== '') yield { type: 'text', text: content }
    reason = choice?.finish_reason ?? reason
    if (usage === undefined || usage === null) continue
    yield {
      type: 'end',
      reason,
      promptTokens: usage.prompt_tokens,
      cachedTokens: usage.prompt_tokens_details?.cached_tokens ?? 0,
      tokens: usage.completion_tokens,
      promptMs: timings?.prompt_ms ?? 0,
      answerMs: timings?.predicted_ms ?? 0,
    }
  }
}

/** What an error in the middle of a stream has in place of a response. */
const streamFailure = { status: 500, statusText: 'the answer ended with an error' }
