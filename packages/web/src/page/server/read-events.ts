import { type EventSourceMessage, EventSourceParserStream } from 'eventsource-parser/stream'

/** The server-sent events of an answer. */
export async function* readEvents(response: Response): AsyncGenerator<EventSourceMessage> {
  if (response.body === null) return
  const events = response.body
    .pipeThrough(new TextDecoderStream())
    .pipeThrough(new EventSourceParserStream())
    .getReader()
  try {
    for (;;) {
      const { done, value } = await events.read()
      if (done) return
      yield value
    }
  } finally {
    await events.cancel().catch(() => {})
  }
}
