import { CllmError, type Clock } from '@cllm/core'
import { expectedField } from '../../request/refusals.js'
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
  /** The streams of an id, oldest first: a new one waits behind the others until it is accepted. */
  readonly #sessions = new Map<string, readonly StreamSession[]>()

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
    const key = keyOf(ctx.state.keyName, id)
    const session = new StreamSession(this.clock.now())
    const before = this.#of(key)
    // the id is the latest one now
    this.#sessions.delete(key)
    this.#sessions.set(key, [...before, session])
    this.#drop()
    return session
  }

  /** Begins the stream of a request that asks for one, before anything waits for the model. */
  expect(ctx: StreamAsker): void {
    const session = this.begin(ctx)
    if (session !== undefined) ctx.state.session = session
  }

  /** The request is accepted: its stream begins, and those before it are stopped and forgotten. */
  accept(ctx: StreamAsker): void {
    const { session } = ctx.state
    if (session === undefined) return
    session.open()
    const key = keyOf(ctx.state.keyName, ctx.get('X-Conversation-Id'))
    const all = this.#of(key)
    const place = Math.max(0, all.indexOf(session))
    for (const former of all.slice(0, place)) former.cancel(this.clock.now())
    this.#keep(key, all.slice(place))
  }

  /**
   * The request failed: its stream ends, and is forgotten unless there was something to read; the others
   * stay.
   *
   * @returns the error to answer with: as with llama-server, who stops a stream that has not begun is told
   *   that the request was wrong
   */
  fail(ctx: StreamAsker, error: unknown): unknown {
    const { session } = ctx.state
    if (session === undefined) return error
    const wasStopped = session.isCancelled && !session.isOpen
    session.cancel(this.clock.now())
    if (!session.isOpen) {
      const key = keyOf(ctx.state.keyName, ctx.get('X-Conversation-Id'))
      this.#keep(
        key,
        this.#of(key).filter((one) => one !== session),
      )
    }
    return wasStopped ? new CllmError('invalid_request', stopped, { cause: error }) : error
  }

  /** The latest stream of an id, if there is one. */
  find(keyName: string | undefined, id: string): StreamSession | undefined {
    this.#drop()
    return this.#of(keyOf(keyName, id)).at(-1)
  }

  /** The latest streams of an id, and of this id with `::` and more behind it. */
  findAll(
    keyName: string | undefined,
    id: string,
  ): (readonly [id: string, session: StreamSession])[] {
    this.#drop()
    const key = keyOf(keyName, id)
    const own = keyOf(keyName, '').length
    return [...this.#sessions]
      .filter(([name]) => name === key || name.startsWith(`${key}::`))
      .map(([name, sessions]) => [name.slice(own), sessions.at(-1)!] as const)
  }

  /** Stops and forgets the streams of an id, if there are any. */
  stop(keyName: string | undefined, id: string): void {
    const key = keyOf(keyName, id)
    for (const session of this.#of(key)) session.cancel(this.clock.now())
    this.#sessions.delete(key)
  }

  #of(key: string): readonly StreamSession[] {
    return this.#sessions.get(key) ?? []
  }

  /** Leaves an id these streams, in its place; none: forgets it. */
  #keep(key: string, sessions: readonly StreamSession[]): void {
    if (sessions.length === 0) this.#sessions.delete(key)
    else this.#sessions.set(key, sessions)
  }

  /** Forgets what has ended long ago, and the oldest ones where there are too many. */
  #drop(): void {
    const now = this.clock.now()
    let bytes = 0
    let count = 0
    this.#filter(({ endedAt, keptBytes }) => {
      if (endedAt !== undefined && endedAt + keptMs <= now) return false
      bytes += keptBytes
      count++
      return true
    })
    if (bytes <= mostBytes && count <= mostSessions) return
    this.#filter(({ endedAt, keptBytes }) => {
      if (endedAt === undefined || (bytes <= mostBytes && count <= mostSessions)) return true
      bytes -= keptBytes
      count--
      return false
    })
  }

  #filter(stays: (session: StreamSession) => boolean): void {
    for (const [key, sessions] of this.#sessions) {
      const kept = sessions.filter(stays)
      if (kept.length < sessions.length) this.#keep(key, kept)
    }
  }
}

const stopped = 'The request was cancelled: its stream was stopped before it began'

const longestId = 512

function keyOf(keyName: string | undefined, id: string): string {
  if (id.length <= longestId) return `${keyName ?? ''}\n${id}`
  throw expectedField('X-Conversation-Id', `at most ${longestId} characters`)
}
