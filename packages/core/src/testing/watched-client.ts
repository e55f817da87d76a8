import type { EngineClient, GenerateEvent } from '../contracts/engine-client.js'

/** An {@link EngineClient} that passes everything on and can be asked what it has seen. */
export interface WatchedClient {
  readonly client: EngineClient
  /** What the last request generated so far. */
  text(): string
  /** Whether the last request was cancelled in one of the three ways that there are. */
  isCancelled(): boolean
  /** Makes the next requests fail with this, or with undefined succeed. */
  failWith(error: unknown): void
}

/** Watches an engine's client. */
export function watchClient(inner: EngineClient): WatchedClient {
  let text = ''
  let failure: unknown
  let left = false
  let signal: AbortSignal | undefined

  const submit: EngineClient['submit'] = (request, options) => {
    text = ''
    left = false
    signal = options?.signal
    const error = failure
    const events = error === undefined ? inner.submit(request, options) : undefined
    const iterator: AsyncIterableIterator<GenerateEvent> = {
      [Symbol.asyncIterator]: () => iterator,
      async next() {
        if (events === undefined) throw error
        const result = await events.next()
        if (result.done !== true && result.value.type !== 'start') text += result.value.text
        return result
      },
      async return() {
        left = true
        return (await events?.return?.()) ?? { done: true, value: undefined }
      },
    }
    return iterator
  }
  const cancel = (id: string) => {
    left = true
    inner.cancel(id)
  }
  const client = new Proxy(inner, {
    get(target, name) {
      if (name === 'submit') return submit
      if (name === 'cancel') return cancel
      const value: unknown = Reflect.get(target, name, target)
      return typeof value === 'function' ? (value.bind(target) as unknown) : value
    },
  })
  return {
    client,
    text: () => text,
    isCancelled: () => left || signal?.aborted === true,
    failWith(error) {
      failure = error
    },
  }
}
