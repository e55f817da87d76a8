import { attempt } from '@cllm/core'
import { type Api, type CallPiece, errorMessage, type ToolCall, toolCall } from '../apis/apis.js'
import type { RequestFailure, Usage } from '../metrics/run-record.js'
import { createParser } from 'eventsource-parser'

/** Reads one answer's stream and records the time of each chunk. */
export class Answer {
  readonly arrivalsMs: number[] = []
  arrivedTokens = 0
  /** All text so far, but for thoughts. */
  text = ''
  thoughts = ''
  usage: Usage | undefined
  failure: RequestFailure | undefined
  /** Whether the stream's final event arrived. */
  ended = false
  readonly #decoder
  readonly #calls: ToolCall[] = []

  constructor(
    private readonly api: Api,
    private readonly now: () => number,
  ) {
    this.#decoder = eventDecoder(api.framing, (data) => this.#take(data))
  }

  feed(text: string): void {
    this.#decoder.feed(text)
  }

  /** What it calls. A call that was cut off is none. */
  get calls(): ToolCall[] {
    return this.#calls.filter((call) => attempt(() => JSON.parse(call.function.arguments)))
  }

  #add({ index = 0, id = '', function: more = {} }: CallPiece): void {
    const call = (this.#calls[index] ??= toolCall('', '', ''))
    call.id += id
    call.function.name += more.name ?? ''
    call.function.arguments += more.arguments ?? ''
  }

  #take(data: string): void {
    if (this.failure !== undefined) return
    if (data === '[DONE]') {
      this.ended = true
      return
    }
    const json = parse(data)
    if (json.error !== undefined) {
      this.failure = { kind: 'server', message: errorMessage(json.error) }
      return
    }
    const event = this.api.read(json)
    if (event === undefined) {
      const message = `not an event of the API ${this.api.name}: ${data.slice(0, 200)}`
      this.failure = { kind: 'protocol', message }
      return
    }
    const { text = '', calls = [] } = event
    if (text !== '' || calls.length > 0) this.arrivalsMs.push(this.now())
    this[event.isThought === true ? 'thoughts' : 'text'] += text
    for (const piece of calls) this.#add(piece)
    this.arrivedTokens += event.tokens ?? 0
    if (event.usage !== undefined) this.usage = { ...this.usage, ...event.usage }
    if (event.done === true) this.ended = true
  }
}

/** The value if it is an object, otherwise an empty object. */
function parse(data: string): Readonly<Record<string, unknown>> {
  const value: unknown = attempt(() => JSON.parse(data))
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {}
}

/**
 * A decoder for server-sent events or for one JSON object per line: consumes a stream's text in pieces and
 * emits the data of each event.
 */
export function eventDecoder(framing: Api['framing'], onData: (data: string) => void) {
  if (framing !== 'ndjson') return createParser({ onEvent: ({ data }) => onData(data) })
  let rest = ''
  return {
    feed(text: string): void {
      const lines = (rest + text).split('\n')
      rest = lines.pop() ?? ''
      for (const line of lines) if (line.trim() !== '') onData(line)
    },
  }
}
