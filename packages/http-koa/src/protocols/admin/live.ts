import { engineInMemory, modelOf, neverLoaded } from '../../engines/model-queries.js'
import type { KoaContext } from '../../routes/koa-context.js'
import { abortOnClose } from '../../stream/abort-on-close.js'
import { startEventStream } from '../../stream/start-event-stream.js'
import { publicError } from '../../errors/public-error.js'
import { errorBody } from '../../errors/error-body.js'
import type { AdminContext } from './admin-context.js'
import { LiveFeed } from './live-feed.js'

/** A client with more unread bytes than this gets no further message until it has read them. */
const mostUnread = 64 * 1024

/**
 * `GET /admin/live`: what goes on in an engine; as server-sent events for who accepts them, at most
 * two a second, otherwise once.
 */
export async function getLive(ctx: KoaContext, { directory, feeds }: AdminContext): Promise<void> {
  const model = modelOf(ctx)
  const engine = engineInMemory(directory, model)
  if (engine === undefined) throw neverLoaded(directory, model)
  const first = await engine.activity()
  if (ctx.accepts('json', 'text/event-stream') !== 'text/event-stream') {
    ctx.body = { success: true, data: first }
    return
  }
  const { clock, logger } = ctx.state.transport
  const stream = startEventStream(ctx)
  const reader = {
    ask: async (cursor?: number) => await engine.activity(cursor),
    get isBehind() {
      return stream.unread > mostUnread
    },
    get isGone() {
      return stream.destroyed
    },
    send: (activity: string) => stream.write(`data: ${activity}\n\n`),
  }
  const { name } = directory.status(model)
  let feed = feeds.get(name)
  if (feed === undefined) feeds.set(name, (feed = new LiveFeed(clock)))
  try {
    reader.send(JSON.stringify(first))
    await feed.tell(reader, abortOnClose(ctx))
    stream.end()
  } catch (error) {
    const body = errorBody(publicError(error, logger))
    if (!stream.destroyed) stream.end(`event: error\ndata: ${JSON.stringify(body)}\n\n`)
  }
}
