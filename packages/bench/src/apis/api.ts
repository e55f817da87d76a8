import type { Usage } from '../metrics/run-record.js'

/** A question that has its answer. */
export interface Turn {
  readonly question: string
  readonly answer: string
}

/** What is asked of a server, whatever its API. */
export interface Ask {
  readonly prompt: string
  /** What was said before, the oldest first. */
  readonly history?: readonly Turn[]
  readonly maxTokens: number
  readonly model?: string
  /** Empty: none. */
  readonly tenant: string
  readonly temperature: number
  /** Generate to `maxTokens` even if the model would end before. */
  readonly ignoreEos: boolean
}

/** What one event of a stream says. */
export interface ApiEvent {
  /** New text, possibly empty. */
  readonly text?: string
  /** Tokens in this event. */
  readonly tokens?: number
  readonly usage?: Usage
  /** True in the event that ends a stream. */
  readonly done?: boolean
  /** The server's message when it failed. */
  readonly error?: string
}

/** How one kind of server is asked for a stream, and how its events are read. */
export interface Api {
  readonly name: string
  readonly path: string
  readonly framing: 'sse' | 'ndjson'
  /** True when a request must name a model. */
  readonly needsModel: boolean
  /** The JSON to post. */
  body(ask: Ask): Readonly<Record<string, unknown>>
  /**
   * Reads an event's JSON; undefined when it is not an event of this API.
   */
  read(event: Readonly<Record<string, unknown>>): ApiEvent | undefined
}

/** The prompt with all that was said before, for an API that takes one text. */
export function textOf({ prompt, history = [] }: Ask): string {
  const said = history.map(({ question, answer }) => `${question}\n${answer}\n`)
  return [...said, prompt].join('')
}

/** The message in an error of any of the APIs. */
export function errorMessage(error: unknown): string {
  const inner = (error as { message?: unknown } | null)?.message ?? error
  return typeof inner === 'string' ? inner : JSON.stringify(inner)
}

/** The value when it is a number. */
export function numberOf(value: unknown): number | undefined {
  return typeof value === 'number' ? value : undefined
}

/** Leaves out what is undefined. */
export function usageOf(counts: { readonly [name in keyof Usage]: number | undefined }): Usage {
  return Object.fromEntries(Object.entries(counts).filter(([, count]) => count !== undefined))
}
