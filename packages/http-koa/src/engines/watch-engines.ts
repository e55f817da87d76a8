import type { Clock, EngineClient, EngineDirectory, GenerateRequest, Logger } from '@cllm/core'
import { CllmError, defined, type GenerateEvent, silentLogger, synchronous } from '@cllm/core'
import { overriding, watchStream } from '@cllm/host'
import { mayChangeServer, requestScope } from '../security/authenticate.js'
import { goesOn, type RequestObserver, type RequestWatch } from '../routes/koa-context.js'

/** The same models with other clients, each of them for as long as its request (`until`). */
export function wrapEngines(
  directory: EngineDirectory,
  wrap: (client: EngineClient, model: string, until: AbortSignal | undefined) => EngineClient,
): EngineDirectory {
  return overriding(directory, {
    open: (id, options) => wrap(directory.open(id, options), directory.nameOf(id), options?.until),
  })
}

/** What is done around the engines of a transport. */
export interface EngineWatch {
  /** What every submitted request is reported to; the first is told first. */
  readonly observers?: readonly RequestObserver[]
  readonly clock: Clock
  /** Told of observers that fail. Default: nobody is. */
  readonly logger?: Logger
  /**
   * Whether requests are their key's: of its tenant, whatever they say, and those of other tenants do not
   * exist. Admins may do everything.
   */
  readonly isGuarded?: boolean
}

/** The same engines, with their requests observed and guarded. */
export function watchEngines(
  directory: EngineDirectory,
  { observers = [], clock, logger = silentLogger, isGuarded = false }: EngineWatch,
): EngineDirectory {
  if (observers.length === 0 && !isGuarded) return directory
  let isTold = false
  const failed = (err: unknown): void => {
    if (!isTold) logger.error({ err }, 'an observer of requests failed; others are not logged')
    isTold = true
  }
  /** What was done already is not to fail by it. */
  const tell = (to: (observer: RequestObserver) => unknown): void => {
    for (const observer of observers) {
      try {
        const told = to(observer)
        // A method may be async after all: its rejection would end the process.
        if (told instanceof Promise) told.catch(failed)
      } catch (err) {
        failed(err)
      }
    }
  }
  return wrapEngines(directory, (client, model) =>
    overriding(client, {
      submit(request, options) {
        const submitted = { model, request, at: clock.now() }
        const watches: RequestWatch[] = []
        /** Tells of an event; of the end where there is none. */
        const onEvent = (event: GenerateEvent | undefined, error?: CllmError): void => {
          const now = clock.now()
          for (const watch of watches) {
            try {
              const told: unknown = event ? watch.onEvent(event, now) : watch.onEnd(now, error)
              if (told instanceof Promise) told.catch(failed)
            } catch (err) {
              // the others must not wait for its end, nor its client for the rest
              failed(err)
            }
          }
        }
        try {
          for (const observer of observers) {
            const watch = observer.onSubmit(submitted)
            // One that is to refuse requests must not let all of them in.
            watches.push(watch instanceof Promise ? synchronous(watch, 'onSubmit') : watch)
          }
        } catch (error) {
          // those who were told before must not wait for its end
          onEvent(undefined, CllmError.from(error))
          throw error
        }
        const owned = isGuarded ? ofKeysTenant(request) : request
        return watchStream(client.submit(owned, options), {
          onEvent,
          onEnd(error) {
            const isPart = error !== undefined && options?.signal?.reason === goesOn
            onEvent(undefined, isPart ? goesOn : error)
          },
        })
      },
      async embed(input, options) {
        for (const observer of observers) synchronous(observer.onEmbed?.(), 'onEmbed')
        const began = clock.now()
        const onEnd = (tokens: number, error?: CllmError): void => {
          const made = { model, tokens, ms: clock.now() - began, ...defined({ error }) }
          tell((observer) => observer.onEmbedded?.(made))
        }
        const made = await client.embed(input, options).catch((error: unknown) => {
          onEnd(0, CllmError.from(error))
          throw error
        })
        onEnd(made.promptTokens)
        return made
      },
      async setScheduler(policy, options) {
        const info = await client.setScheduler(policy, options)
        tell((observer) => observer.onPolicy?.(model, info.policy))
        return info
      },
      ...(isGuarded && guarded(client)),
    }),
  )
}

function ofKeysTenant(request: GenerateRequest): GenerateRequest {
  const key = requestScope.getStore()?.key
  if (key === undefined) return request
  const tenant = key.role === 'admin' ? (request.tenant ?? key.tenant) : key.tenant
  return { ...request, tenant }
}

/** What a key may ask of an engine besides requests. */
const guarded = (
  client: EngineClient,
): Pick<EngineClient, 'applyTemplate' | 'slotAction' | 'explain'> => ({
  async applyTemplate(messages, options) {
    const tenant = requestScope.getStore()?.key?.tenant
    return await client.applyTemplate(messages, { ...options, ...defined({ tenant }) })
  },
  async slotAction(slot, action) {
    if (mayChangeServer()) return await client.slotAction(slot, action)
    const message = 'Slots hold what others wrote: saving and restoring needs an admin key'
    throw new CllmError('forbidden', message)
  },
  async explain(id) {
    const report = await client.explain(id)
    if (mayChangeServer() || report.tenant === requestScope.getStore()?.key.tenant) return report
    const message = `There is no request "${id}" under way or among the last that ended`
    throw new CllmError('request_not_found', message, { details: { id } })
  },
})
