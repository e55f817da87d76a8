import { type Clock, CllmError } from '@cllm/core'
import type { KoaContext } from '../../routes/koa-context.js'
import { StreamSession } from './stream-session.js'

/** Milliseconds for which a complete stream is kept. */
const keptMs = 5 * 60_000
/** Bytes of all streams, and their number. */
const mostBytes = 64 * 2 ** 20
const mostSessions = 1000

/** The request that asks: its key, and its headers. */
export type StreamAsker = Pick<KoaContext, 'get' | 'method' | 'state'>

/**
 * Streams that clients can come back to, by the id that a client sent as `X-Conversation-Id`. Those of
 * another key are not found.
 */
export class StreamSessions {
  readonly #sessions = new Map<string, StreamSession>()

  /** @param clock - by which streams grow old */
  constructor(private readonly clock: Clock) {}

  /**
   * Begins the stream of an id, in place of an earlier one, which is stopped when the new one is accepted;
   * undefined where the request has none.
   *
   * @throws `invalid_request` for a wrong id
   */
  begin(ctx: StreamAsker): StreamSession | undefined {
    const id = ctx.get('X-Conversation-Id')
    if (id === '' || ctx.method !== 'POST') return undefined
    const key = keyOf(ctx, id)
    const session = new StreamSession(this.clock.now(), this.#sessions.get(key))
    this.#sessions.delete(key)
    this.#sessions.set(key, session)
    this.#drop()
    return session
  }

  /**
   * The request failed: its stream ends, and is forgotten unless there was something to read; the one before
   * it stays.
   *
   * @returns the error to answer with: as with llama-server, who stops a stream that has not begun is told
   *   that the request was wrong
   */
  fail(ctx: StreamAsker, error: unknown): unknown {
    const { session } = ctx.state
    if (session === undefined) return error
    const wasStopped = session.isCancelled && !session.isOpen
    session.cancel(this.clock.now())
    const key = keyOf(ctx, ctx.get('X-Conversation-Id'))
    if (!session.isOpen && this.#sessions.get(key) === session) {
      const { former } = session
      if (former === undefined) this.#sessions.delete(key)
      else this.#sessions.set(key, former)
    }
    return wasStopped ? new CllmError('invalid_request', stopped, { cause: error }) : error
  }

  /** The stream of an id, if there is one. */
  find(ctx: StreamAsker, id: string): StreamSession | undefined {
    this.#drop()
    return this.#sessions.get(keyOf(ctx, id))
  }

  /** The streams of an id, and of this id with `::` and more behind it. */
  findAll(ctx: StreamAsker, id: string): (readonly [id: string, session: StreamSession])[] {
    this.#drop()
    const key = keyOf(ctx, id)
    const own = keyOf(ctx, '').length
    return [...this.#sessions]
      .filter(([name]) => name === key || name.startsWith(`${key}::`))
      .map(([name, session]) => [name.slice(own), session] as const)
  }

  /** Stops and forgets a stream, if there is one. */
  stop(ctx: StreamAsker, id: string): void {
    const key = keyOf(ctx, id)
    const session = this.#sessions.get(key)
    session?.stopFormer(this.clock.now())
    session?.cancel(this.clock.now())
    this.#sessions.delete(key)
  }

  /** Forgets what has ended long ago, and the oldest ones where there are too many. */
  #drop(): void {
    const now = this.clock.now()
    let bytes = 0
    for (const [key, session] of this.#sessions) {
      if (session.endedAt !== undefined && session.endedAt + keptMs <= now) {
        this.#sessions.delete(key)
      } else bytes += session.keptBytes + (session.former?.keptBytes ?? 0)
    }
    for (const [key, session] of this.#sessions) {
      if (bytes <= mostBytes && this.#sessions.size <= mostSessions) return
      if (session.endedAt === undefined) continue
      bytes -= session.keptBytes
      this.#sessions.delete(key)
    }
  }
}

const stopped = 'The request was cancelled: its stream was stopped before it began'

const longestId = 512

function keyOf(ctx: StreamAsker, id: string): string {
  if (id.length <= longestId) return `${ctx.state.keyName ?? ''}\n${id}`
  const message = `X-Conversation-Id: expected at most ${longestId} characters`
  throw new CllmError('invalid_request', message, { details: { field: 'X-Conversation-Id' } })
}
