import { attempt, CllmError, defined, type ErrorCode, errorTable } from '@cllm/core'
import { EventSourceParserStream } from 'eventsource-parser/stream'

/** A server and the key for it. */
export interface ServerAddress {
  readonly url: URL
  /** Default: the server takes requests without one. */
  readonly apiKey?: string | undefined
}

/** Calls the HTTP routes of a running server, as any client of it does. */
export class ServerClient {
  constructor(readonly address: ServerAddress) {}

  /** The JSON that a route answers with. Throws `target_unavailable` or the server's error. */
  async get(path: string, signal?: AbortSignal): Promise<unknown> {
    return await (await this.#call(path, signal)).json()
  }

  /** The text that a route answers with. */
  async text(path: string, signal?: AbortSignal): Promise<string> {
    return await (await this.#call(path, signal)).text()
  }

  /** Sends JSON; returns the JSON of the answer, or undefined where it is empty. */
  async post(path: string, body: object, signal?: AbortSignal): Promise<unknown> {
    const text = await (await this.#call(path, signal, body)).text()
    return text === '' ? undefined : JSON.parse(text)
  }

  /** Sends JSON and yields the JSON of each server-sent event, up to `[DONE]`. */
  async *events(path: string, body: object, signal: AbortSignal): AsyncGenerator {
    const { body: stream } = await this.#call(path, signal, body)
    if (stream === null) return
    const events = stream
      .pipeThrough(new TextDecoderStream())
      .pipeThrough(new EventSourceParserStream())
    try {
      for await (const { data } of events) {
        if (data === '[DONE]') return
        yield JSON.parse(data) as unknown
      }
    } catch (cause) {
      signal.throwIfAborted()
      if (CllmError.isInstance(cause)) throw cause
      const message = `the server at ${this.#name} ended the answer: ${reasonOf(cause)}`
      throw new CllmError('target_unavailable', message, { cause })
    }
  }

  get #name(): string {
    return this.address.url.href.replace(/\/$/, '')
  }

  async #call(path: string, signal?: AbortSignal, body?: object): Promise<Response> {
    const { apiKey } = this.address
    const json = { 'content-type': 'application/json' }
    const response = await fetch(`${this.#name}${path}`, {
      headers: {
        ...(body && json),
        ...(apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` }),
      },
      ...(body && { method: 'POST', body: JSON.stringify(body) }),
      ...defined({ signal }),
    }).catch((cause: unknown) => {
      signal?.throwIfAborted()
      const message = `no server answers at ${this.#name}: ${reasonOf(cause)}`
      throw new CllmError('target_unavailable', message, { cause })
    })
    if (!response.ok) throw errorOf(response, await response.text())
    return response
  }
}

function reasonOf(error: unknown): string {
  const { message, cause } = error as Error
  const reason = cause instanceof Error ? cause.message || String(cause) : message
  if (reason.includes('ECONNREFUSED')) return `${reason}; \`cllm serve\` starts one`
  return reason.includes('certificate') ? `${reason}; NODE_EXTRA_CA_CERTS=FILE trusts more` : reason
}

/** The error of an answer, in the form of any of the protocols. */
export function errorOf(
  { status, statusText }: Pick<Response, 'status' | 'statusText'>,
  text: string,
): CllmError {
  const { error = text, code } = parsed(text)
  const { message, code: inner } = typeof error === 'object' ? error : { message: error }
  const given = code ?? inner ?? ''
  const known = openAiCodes[given] ?? given
  const isKnown = Object.hasOwn(errorTable, known)
  const fallback = codesByStatus[status] ?? 'target_unavailable'
  const shown = message === undefined || message === '' ? `${status} ${statusText}` : message
  const help = status === 401 ? '; --api-key KEY or CLLM_API_KEY sends one' : ''
  return new CllmError(isKnown ? (known as ErrorCode) : fallback, shown + help, {
    details: { status, isNamed: isKnown },
  })
}

/** OpenAI's codes, which its routes answer with in place of our own. */
const openAiCodes: Readonly<Record<string, ErrorCode>> = {
  context_length_exceeded: 'prompt_too_long',
  invalid_api_key: 'unauthenticated',
  rate_limit_exceeded: 'queue_full',
}

/** Codes for answers without one of ours, such as those in Ollama's form. */
const codesByStatus: Readonly<Record<number, ErrorCode>> = {
  401: 'unauthenticated',
  403: 'forbidden',
  404: 'not_found',
  429: 'queue_full',
  503: 'engine_unavailable',
}

interface ErrorFields {
  readonly error?: string | { readonly message?: string; readonly code?: string }
  readonly code?: string
}

function parsed(text: string): ErrorFields {
  const value: unknown = attempt(() => JSON.parse(text))
  return typeof value === 'object' && value !== null ? value : {}
}

/** A model of a server, with its state and its use. */
export interface ServedModelState {
  readonly name: string
  /** `unloaded`, `loading`, `loaded` or `unloading`. */
  readonly state: string
  /** Bytes of its weights; null if it was never in memory. */
  readonly sizeBytes: number | null
  /** Requests that run or wait in its engine. */
  readonly users: number
  /** Requests that wait for it to be loaded. */
  readonly waiting: number
  /** When it leaves memory if nobody uses it, as ISO 8601; null: never. */
  readonly expiresAt: string | null
}

interface Listed extends Pick<ServedModelState, 'users' | 'waiting'> {
  readonly id: string
  readonly status: { readonly value: string }
  readonly size_bytes: number | null
  readonly expires_at: string | null
}

/** The models of a server with their states, from `GET /models`. */
export async function readModels(client: ServerClient, signal: AbortSignal) {
  const { data } = (await client.get('/models', signal)) as { readonly data: readonly Listed[] }
  return data.map((model) => ({
    name: model.id,
    state: model.status.value,
    sizeBytes: model.size_bytes,
    users: model.users,
    waiting: model.waiting,
    expiresAt: model.expires_at,
  }))
}
