import { createParser } from 'eventsource-parser'

/** Consumes a stream's text in pieces and emits the data of each event. */
export interface EventDecoder {
  feed(text: string): void
}

/** A decoder for server-sent events or for one JSON object per line. */
export function eventDecoder(
  framing: 'sse' | 'ndjson',
  onData: (data: string) => void,
): EventDecoder {
  if (framing === 'sse') return createParser({ onEvent: ({ data }) => onData(data) })
  let rest = ''
  return {
    feed(text) {
      const lines = (rest + text).split('\n')
      rest = lines.pop() ?? ''
      for (const line of lines) if (line.trim() !== '') onData(line)
    },
  }
}
