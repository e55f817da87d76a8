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

/** The lines of an answer, as they come. */
export async function* readLines(response: Response): AsyncGenerator<string> {
  if (response.body === null) return
  const parts = response.body.pipeThrough(new TextDecoderStream()).getReader()
  let rest = ''
  for (;;) {
    const { done, value } = await parts.read()
    if (done) break
    const lines = (rest + value).split('\n')
    rest = lines.pop() ?? ''
    yield* lines.filter((line) => line !== '')
  }
  if (rest !== '') yield rest
}
