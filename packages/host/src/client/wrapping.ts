import { type GenerateEvent, type GenerateEvents, cancelled, CllmError } from '@cllm/core'

/** Callbacks on a stream. */
export interface StreamWatcher {
  /** An event is about to be handed to the consumer. What this throws is the stream's failure. */
  readonly onEvent?: (event: GenerateEvent) => void
  /**
   * Called once, at the end: without an error after the last event, with the stream's failure, or with `cancelled` if
   * the consumer left.
   */
  readonly onEnd?: (error?: CllmError) => void
}

/** The same events, observed by the callbacks. */
export function watchStream(events: GenerateEvents, { onEvent, onEnd }: StreamWatcher) {
  let isOver = false
  const end = (error?: CllmError): void => {
    if (isOver) return
    isOver = true
    onEnd?.(error)
  }
  const iterator: GenerateEvents = {
    [Symbol.asyncIterator]: () => iterator,
    async next() {
      try {
        const result = await events.next()
        if (result.done !== true && !isOver) onEvent?.(result.value)
        if (result.done === true || result.value.type === 'end') end()
        return result
      } catch (error) {
        end(CllmError.from(error))
        throw error
      }
    },
    async return() {
      end(new CllmError('cancelled', 'The client left'))
      return (await events.return?.()) ?? { done: true, value: undefined }
    },
  }
  return iterator
}

/** The functions that settle a promise from outside. */
export interface Settling<Value> {
  /** Fulfils it. */
  readonly resolve: (value: Value) => void
  /** Rejects it. */
  readonly reject: (error: Error) => void
}

/** The object with some methods replaced; all others run on the object itself. */
export function overriding<T extends object>(target: T, methods: Partial<T>): T {
  return new Proxy(target, {
    get(object, name) {
      if (Object.hasOwn(methods, name)) return methods[name as keyof T]
      const value: unknown = Reflect.get(object, name, object)
      return typeof value === 'function' ? (value.bind(object) as unknown) : value
    },
  })
}

/**
 * A promise's value; throws `cancelled` if the signal aborts first. The promise itself goes on, as others may wait for
 * it.
 *
 * @param onLate - called with a value that comes after the abort
 */
export async function unlessAborted<T>(
  later: Promise<T>,
  signal: AbortSignal | undefined,
  onLate?: (value: T) => void,
): Promise<T> {
  if (signal === undefined) return await later
  return await new Promise((resolve, reject) => {
    const onAbort = (): void => reject(cancelled(signal))
    if (signal.aborted) onAbort()
    signal.addEventListener('abort', onAbort, { once: true })
    const settle = (value: T): void => {
      if (signal.aborted) onLate?.(value)
      resolve(value)
    }
    void later.then(settle, reject).finally(() => signal.removeEventListener('abort', onAbort))
  })
}
