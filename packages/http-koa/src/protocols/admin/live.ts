import { loadedEngine, type ModelQuery } from '../../engines/model-queries.js'
import type { Call } from '../../routes/call.js'
import { eventStream, StreamReply } from '../../routes/reply.js'
import { errorBody } from '../../errors/error-body.js'
import type { AdminContext } from './admin-context.js'
import { LiveFeed } from './live-feed.js'

/** A client with more unread bytes than this gets no further message until it has read them. */
const mostUnread = 64 * 1024

/**
 * `GET /admin/live`: what goes on in an engine; as server-sent events for who accepts them, at most
 * two a second, otherwise once.
 */
export async function getLive(call: Call<unknown, ModelQuery>, { feeds }: AdminContext) {
  const { clock, engines, query } = call
  const engine = loadedEngine(engines, query.model)
  const first = await engine.activity()
  if (call.accepts('json', 'text/event-stream') !== 'text/event-stream') {
    return { success: true, data: first }
  }
  const { name } = engines.status(query.model)
  let feed = feeds.get(name)
  if (feed === undefined) feeds.set(name, (feed = new LiveFeed(clock)))
  const told = feed
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
      await told.tell(reader, call.signal)
    },
    (error, writer) => writer.write(`event: error\ndata: ${JSON.stringify(errorBody(error))}\n\n`),
  )
}
