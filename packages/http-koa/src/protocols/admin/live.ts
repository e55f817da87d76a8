import { type Clock, type EngineActivity, pause, entryOf } from '@cllm/core'
import {
  engineInMemory,
  loadedEngine,
  type ModelQuery,
  modelQuery,
  neverLoaded,
} from '../../engines/model-queries.js'
import { eventStream, StreamReply, get, wholeOrEvents } from '../../routes/route.js'
import type { Answer, Call, Route } from '../../routes/route.js'
import { orUnsupported } from '../../request/refusals.js'
import { errorBody } from '../../errors/error-body.js'

/** Milliseconds between two messages while the engine has work; `idleMs`: while it has none. */
const busyMs = 500
const idleMs = 1000

/** A client that gets the messages of a {@link LiveFeed}. */
interface LiveReader {
  /** Queries the engine, through this reader's client. */
  readonly ask: (cursor: number | undefined) => Promise<EngineActivity>
  /** Whether it has not read earlier messages yet. */
  readonly isBehind: boolean
  /** Whether it has disconnected. */
  readonly isGone: boolean
  /** Sends a message, which is JSON. */
  send(activity: string): void
}

interface Seat {
  readonly reader: LiveReader
  /** Frames that the reader was too slow for. */
  missed: number
  leave(error?: unknown): void
}

/**
 * Queries an engine's activity and sends it to all readers, at most twice a second: one query and one message
 * for all of them. While all readers are behind, the engine is not queried.
 */
export class LiveFeed {
  readonly #seats = new Set<Seat>()
  #cursor: number | undefined
  #isRunning = false

  constructor(private readonly clock: Clock) {}

  /**
   * Sends a reader the activity from now on. Resolves when the reader is gone or the signal aborts; rejects if
   * a query fails.
   */
  async tell(reader: LiveReader, signal: AbortSignal): Promise<void> {
    if (signal.aborted) return
    await new Promise<void>((resolve, reject) => {
      const seat: Seat = {
        reader,
        missed: 0,
        leave: (error) => {
          signal.removeEventListener('abort', abort)
          this.#seats.delete(seat)
          if (error === undefined) resolve()
          else reject(error)
        },
      }
      const abort = (): void => seat.leave()
      signal.addEventListener('abort', abort, { once: true })
      this.#seats.add(seat)
      if (!this.#isRunning) void this.#run()
    })
  }

  async #run(): Promise<void> {
    this.#isRunning = true
    for (let isBusy = true; this.#seats.size > 0;) {
      await pause(this.clock, isBusy ? busyMs : idleMs)
      isBusy = await this.#round()
      for (const seat of this.#seats) if (seat.reader.isGone) seat.leave()
    }
    this.#isRunning = false
    this.#cursor = undefined
  }

  /** Sends a message to all readers that are not behind; returns whether the engine has work. */
  async #round(): Promise<boolean> {
    const awake = [...this.#seats].filter(({ reader }) => !reader.isBehind && !reader.isGone)
    const [first] = awake
    if (first === undefined) return true
    let activity: EngineActivity
    try {
      activity = await first.reader.ask(this.#cursor)
    } catch (error) {
      for (const seat of this.#seats) seat.leave(error)
      return false
    }
    const { cursor, frames, lost } = activity
    this.#cursor = cursor
    const text = JSON.stringify(activity)
    for (const seat of this.#seats) {
      const { reader, missed } = seat
      if (reader.isGone) continue
      if (reader.isBehind) {
        seat.missed += frames.length
        continue
      }
      seat.missed = 0
      reader.send(missed === 0 ? text : JSON.stringify({ ...activity, lost: lost + missed }))
    }
    return frames.length > 0
  }
}

/** The context of the live view's handler. */
export interface LiveContext {
  /** The feeds of engines, by model. */
  readonly feeds: Map<string, LiveFeed>
}

/** A client with more unread bytes than this gets no further message until it has read them. */
const mostUnread = 64 * 1024

/**
 * `GET /admin/live`: an engine's activity; at most two server-sent events per second for clients that accept
 * them, otherwise once.
 */
async function getLive(call: Call<unknown, ModelQuery>, { feeds }: LiveContext) {
  const { clock, engines, query } = call
  const engine = loadedEngine(engines, query.model)
  const first = await engine.activity()
  if (call.accepts('json', 'text/event-stream') !== 'text/event-stream') {
    return { success: true, data: first }
  }
  const { name } = engines.status(query.model)
  const feed = entryOf(feeds, name, () => new LiveFeed(clock))
  return new StreamReply(
    eventStream,
    async (writer) => {
      const reader = {
        ask: async (cursor?: number) => await engine.activity(cursor),
        get isBehind() {
          return writer.unread > mostUnread
        },
        get isGone() {
          return writer.destroyed
        },
        send: (activity: string) => writer.write(`data: ${activity}\n\n`),
      }
      reader.send(JSON.stringify(first))
      await feed.tell(reader, call.signal)
    },
    (error, writer) => writer.write(`event: error\ndata: ${JSON.stringify(errorBody(error))}\n\n`),
  )
}

/**
 * `GET /admin/recorder`: the flight recorder's last minutes, without any text. For an unloaded model, those
 * before it was unloaded.
 */
async function getRecorder(call: Call<unknown, ModelQuery>): Promise<Answer> {
  const { model } = call.query
  const directory = call.engines
  const engine = engineInMemory(directory, model)
  const { recording: kept, info } = directory.status(model)
  if (engine === undefined && kept === undefined && info === undefined) {
    throw neverLoaded(directory, model)
  }
  const recording = engine === undefined ? kept : await engine.recording?.()
  return orUnsupported(recording, 'The engine of this server has no flight recorder')
}

/** The routes of an engine's present state and recent past. */
export const liveRoutes: readonly Route<LiveContext>[] = [
  get(
    '/admin/recorder',
    'admin',
    'The requests and steps of the last minutes, without any text',
    getRecorder,
    { query: modelQuery },
  ),
  get('/admin/live', 'admin', 'The slots and the queue, once or as server-sent events', getLive, {
    query: modelQuery,
    answers: wholeOrEvents,
    isQuiet: true,
  }),
]
