import { createContext } from 'preact'
import { useContext, useEffect, useState } from 'preact/hooks'
import { parsedJson } from './parts/format.js'
import { type EventSourceMessage, EventSourceParserStream } from 'eventsource-parser/stream'

/** A failure as the server tells it. */
export class ServerError extends Error {
  constructor(
    message: string,
    readonly status: number,
    readonly code: string,
  ) {
    super(message)
    this.name = 'ServerError'
  }
}

/** Whether the server wants another key: asking again with this one changes nothing. */
export const isRefusal = (error: unknown): boolean =>
  error instanceof ServerError && (error.status === 401 || error.status === 403)

const keyName = 'cllm-key'

/** What is sent to a route besides its path. */
export interface Call {
  readonly method?: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  readonly body?: unknown
  readonly headers?: Readonly<Record<string, string>>
  readonly signal?: AbortSignal
}

/** The server that the page came from. It works below any path that a proxy may have put before it. */
export class Server {
  readonly #base = new URL('../', document.baseURI)

  /** @param onKeyNeeded - called when the server wants an API key, or one with more rights */
  constructor(private readonly onKeyNeeded: (error: ServerError) => void) {}

  /** The API key; it is kept until the tab is closed. */
  get key(): string {
    return sessionStorage.getItem(keyName) ?? ''
  }

  /** Takes another key, unless the server does not know it: the one before may be a good one. */
  async takeKey(key: string): Promise<void> {
    try {
      await this.call('v1/models', { headers: { authorization: `Bearer ${key}` } })
    } catch (error) {
      if (!(error instanceof ServerError) || error.status === 401) throw error
    }
    sessionStorage.setItem(keyName, key)
  }

  /** Calls a route. Throws {@link ServerError} unless the answer is a success. */
  async call(path: string, { body, headers, signal, ...call }: Call = {}): Promise<Response> {
    const { key } = this
    const response = await fetch(new URL(path, this.#base), {
      ...call,
      headers: {
        ...(key !== '' && { authorization: `Bearer ${key}` }),
        ...(body !== undefined && { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
      ...(signal && { signal }),
    }).catch((cause: unknown) => {
      signal?.throwIfAborted()
      throw new Error('The server does not answer: start it, then try again.', { cause })
    })
    if (response.ok) return response
    const error = toError(response.status, await response.text())
    if (error.status === 401 || error.code === 'forbidden') this.onKeyNeeded(error)
    throw error
  }

  /** The JSON that a route answers with. */
  async json<T>(path: string, call?: Call): Promise<T> {
    const response = await this.call(path, call)
    return (await response.json()) as T
  }
}

function toError(status: number, text: string): ServerError {
  type Told = { readonly message?: string; readonly code?: string }
  type Known = { readonly error?: string | Told; readonly code?: string }
  const { error, code = '' } = (parsedJson(text) ?? {}) as Known
  if (typeof error === 'string') return new ServerError(error, status, code)
  const plain = text === '' ? `Status ${status}` : text.slice(0, 500)
  return new ServerError(error?.message ?? plain, status, error?.code ?? '')
}

/** The server of the page. */
export const ServerContext = createContext<Server | undefined>(undefined)

/** The server that the page came from. */
export function useServer(): Server {
  const server = useContext(ServerContext)
  if (server === undefined) throw new Error('There is no server around this component')
  return server
}

/** The parts of a stream, as they come. */
async function* partsOf<T>(stream: ReadableStream<T>): AsyncGenerator<T> {
  const parts = stream.getReader()
  try {
    for (let next = await parts.read(); !next.done; next = await parts.read()) yield next.value
  } catch (cause) {
    // Browsers say "network error", or nothing that helps.
    if (!(cause instanceof TypeError)) throw cause
    throw new Error('The connection to the server broke off: try again.', { cause })
  } finally {
    await parts.cancel().catch(() => {})
  }
}

const textOf = ({ body }: Response): ReadableStream<string> =>
  (body ?? new Blob().stream()).pipeThrough(new TextDecoderStream())

/** The server-sent events of an answer. */
export const readEvents = (response: Response): AsyncGenerator<EventSourceMessage> =>
  partsOf(textOf(response).pipeThrough(new EventSourceParserStream()))

/** The lines of an answer, as they come. */
export async function* readLines(response: Response): AsyncGenerator<string> {
  let rest = ''
  for await (const part of partsOf(textOf(response))) {
    const lines = (rest + part).split('\n')
    rest = lines.pop() ?? ''
    yield* lines.filter((line) => line !== '')
  }
  if (rest !== '') yield rest
}

/** When a route is asked again. */
interface Looks<T> {
  /** Milliseconds from the end of a look to the next one. Default: it is asked once. */
  readonly everyMs?: number
  /** Whether there will be something new after this answer. Default: always. */
  readonly goesOn?: (answer: T) => boolean
  /** Whatever changes when it is to be asked at once. */
  readonly again?: unknown
}

/**
 * Asks a route of the server at once and, while this part of the page is shown, again and again, until the
 * server refuses or knows nothing of it.
 *
 * @param path - undefined: nothing is asked
 * @param server - only for what is around {@link ServerContext}, which has it
 * @returns what it answered last, why it does not now, and what asks it at once
 */
export function useAnswer<T>(
  path: string | undefined,
  { everyMs, goesOn = () => true, again }: Looks<T> = {},
  server: Server = useServer(),
) {
  const [answer, setAnswer] = useState<T>()
  const [error, setError] = useState<Error>()
  const [times, setTimes] = useState(0)
  useEffect(() => {
    if (path === undefined) return
    const leaving = new AbortController()
    const { signal } = leaving
    let timer: ReturnType<typeof setTimeout> | undefined
    const look = async (): Promise<void> => {
      let isOpen: boolean
      try {
        const next = await server.json<T>(path, { signal })
        setAnswer(() => next)
        setError(undefined)
        isOpen = goesOn(next)
      } catch (error) {
        if (signal.aborted) return
        setError(error as Error)
        isOpen = !isRefusal(error) && !(error instanceof ServerError && error.status === 404)
      }
      if (!isOpen || everyMs === undefined || signal.aborted) return
      timer = setTimeout(() => void look(), everyMs)
    }
    void look()
    return () => {
      leaving.abort()
      clearTimeout(timer)
    }
  }, [server, path, again, times])
  return { answer, error, problem: error?.message, askAgain: () => setTimes((count) => count + 1) }
}

/** A route's path with the model that it is about; empty: the server's default. */
export const ofModel = (path: string, model: string): string =>
  model === '' ? path : `${path}?model=${encodeURIComponent(model)}`
