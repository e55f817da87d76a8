import { defined } from '@cllm/core'
import type { Usage } from '../metrics/run-record.js'

/** An earlier turn of a conversation: a question and its answer. */
export interface Turn {
  readonly question: string
  readonly answer: string
}

/** A request, independent of the server's API. */
export interface Ask {
  readonly prompt: string
  /** The earlier turns, oldest first. */
  readonly history?: readonly Turn[]
  readonly maxTokens: number
  readonly model?: string
  /** Empty: none. */
  readonly tenant: string
  readonly temperature: number
  /** Generate up to `maxTokens` even if the model would stop earlier. */
  readonly ignoreEos: boolean
}

/** The content of one event of a stream. */
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

/** The API of one kind of server: how to request a stream and read its events. */
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

/** The prompt after the earlier turns, for an API that accepts a single text. */
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

/** Removes undefined fields. */
export function usageOf(counts: { readonly [name in keyof Usage]: number | undefined }): Usage {
  return defined(counts)
}
