import {
  type Clock,
  CllmError,
  defined,
  type EngineDirectory,
  overriding,
  watchStream,
} from '@cllm/core'
import type { RequestObserver } from './request-observer.js'
import { wrapEngines } from './wrap-engines.js'

/** The same engines, with every submitted request reported to the observer. */
export function observeEngines(
  directory: EngineDirectory,
  observer: RequestObserver,
  clock: Clock,
): EngineDirectory {
  return wrapEngines(directory, (client, model) =>
    overriding(client, {
      submit(request, options) {
        const watch = observer.onSubmit({ model, request, at: clock.now() })
        return watchStream(client.submit(request, options), {
          onEvent: (event) => watch.onEvent(event, clock.now()),
          onEnd: (error) => watch.onEnd(clock.now(), error),
        })
      },
      async embed(input, options) {
        const began = clock.now()
        const tell = (tokens: number, error?: CllmError): void =>
          observer.onEmbedded?.({ model, tokens, ms: clock.now() - began, ...defined({ error }) })
        try {
          const made = await client.embed(input, options)
          tell(made.promptTokens)
          return made
        } catch (error) {
          tell(0, CllmError.from(error))
          throw error
        }
      },
      async setScheduler(policy, options) {
        const info = await client.setScheduler(policy, options)
        observer.onPolicy?.(model, info.policy)
        return info
      },
    }),
  )
}
