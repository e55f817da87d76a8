import { type Clock, type EngineDirectory, overriding, watchStream } from '@cllm/core'
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
      async setScheduler(policy, options) {
        const info = await client.setScheduler(policy, options)
        observer.onPolicy?.(model, info.policy)
        return info
      },
    }),
  )
}
