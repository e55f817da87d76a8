import {
  type Clock,
  CllmError,
  type EngineClient,
  type EngineDirectory,
  type GenerateEvent,
} from '@cllm/core'
import type { RequestObserver, RequestWatch } from './request-observer.js'
import { wrapEngines } from './wrap-engines.js'

/** The same engines; the observer is told of all that is submitted to them. */
export function observeEngines(
  directory: EngineDirectory,
  observer: RequestObserver,
  clock: Clock,
): EngineDirectory {
  return wrapEngines(directory, (client, model) =>
    overriding(client, {
      submit(request, options) {
        const watch = observer.submitted({ model, request, at: clock.now() })
        return observe(client.submit(request, options), watch, clock)
      },
      async setScheduler(policy, options) {
        const info = await client.setScheduler(policy, options)
        observer.policySet?.(model, info.policy)
        return info
      },
    }),
  )
}

/** A client that differs in some methods, whatever else it can do. */
export function overriding(client: EngineClient, methods: Partial<EngineClient>): EngineClient {
  return new Proxy(client, {
    get(target, name) {
      if (Object.hasOwn(methods, name)) return methods[name as keyof EngineClient]
      const value: unknown = Reflect.get(target, name, target)
      return typeof value === 'function' ? (value.bind(target) as unknown) : value
    },
  })
}

function observe(
  events: AsyncIterableIterator<GenerateEvent>,
  watch: RequestWatch,
  clock: Clock,
): AsyncIterableIterator<GenerateEvent> {
  let isOver = false
  const over = (error?: CllmError): void => {
    if (isOver) return
    isOver = true
    watch.ended(clock.now(), error)
  }
  const iterator: AsyncIterableIterator<GenerateEvent> = {
    [Symbol.asyncIterator]: () => iterator,
    async next() {
      try {
        const result = await events.next()
        if (result.done !== true && !isOver) {
          watch.heard(result.value, clock.now())
          if (result.value.type === 'end') over()
        }
        return result
      } catch (error) {
        over(CllmError.from(error))
        throw error
      }
    },
    async return() {
      over(new CllmError('cancelled', 'The client left'))
      return (await events.return?.()) ?? { done: true, value: undefined }
    },
  }
  return iterator
}
