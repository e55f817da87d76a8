import { overriding, watchStream } from '@cllm/host'
import type { EngineClient } from '@cllm/core'

/** An {@link EngineClient} that passes everything on and can be asked what it has seen. */
export interface WatchedClient {
  readonly client: EngineClient
  /** What the last request generated so far. */
  text(): string
  /** The same, a piece for each event. */
  pieces(): readonly string[]
  /** Whether the last request was cancelled in one of the three ways that there are. */
  isCancelled(): boolean
  /** Makes the next requests fail with this, or with undefined succeed. */
  failWith(error: unknown): void
}

/** Watches an engine's client. */
export function watchClient(inner: EngineClient): WatchedClient {
  let pieces: string[] = []
  let failure: unknown
  let left = false
  let signal: AbortSignal | undefined

  const client = overriding(inner, {
    submit(request, options) {
      pieces = []
      left = false
      signal = options?.signal
      if (failure !== undefined) return failing(failure)
      return watchStream(inner.submit(request, options), {
        onEvent: (event) => void (event.type !== 'start' && pieces.push(event.text)),
        onEnd: (error) => void (left ||= error?.code === 'cancelled'),
      })
    },
    cancel(id, reason) {
      left = true
      inner.cancel(id, reason)
    },
  })
  return {
    client,
    text: () => pieces.join(''),
    pieces: () => pieces,
    isCancelled: () => left || signal?.aborted === true,
    failWith(error) {
      failure = error
    },
  }
}

// oxlint-disable-next-line require-yield -- it has nothing to yield
async function* failing(error: unknown): AsyncGenerator<never, undefined> {
  throw error
}
