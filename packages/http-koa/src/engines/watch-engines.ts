import type { Clock, EngineClient, EngineDirectory, GenerateRequest, Logger } from '@cllm/core'
import { CllmError, defined, type GenerateEvent, silentLogger, synchronous } from '@cllm/core'
import { overriding, watchStream } from '@cllm/host'
import { mayChangeServer, requestScope } from '../security/authenticate.js'
import { goesOn, type RequestObserver, type RequestWatch } from '../routes/koa-context.js'

/** The same directory with wrapped clients, each for one request, which lasts until `until`. */
export function wrapEngines(
  directory: EngineDirectory,
  wrap: (client: EngineClient, model: string, until: AbortSignal | undefined) => EngineClient,
): EngineDirectory {
  return overriding(directory, {
    open: (id, options) => wrap(directory.open(id, options), directory.nameOf(id), options?.until),
  })
}

/** How the engines of a transport are observed and guarded. */
export interface EngineWatch {
  /** Observers of every request, in the order in which they are called. */
  readonly observers?: readonly RequestObserver[]
  readonly clock: Clock
  /** The names of the protocols that observers are of, for errors and the log. */
  readonly owners?: ReadonlyMap<RequestObserver, string>
  /** Logs failures of observers. Default: they are not logged. */
  readonly logger?: Logger
  /**
   * Whether requests belong to their key's tenant, whatever their fields say, and cannot see requests of other
   * tenants. Admins may do everything.
   */
  readonly isGuarded?: boolean
}

/** The same engines, with their requests observed and guarded. */
export function watchEngines(
  directory: EngineDirectory,
  { observers = [], owners, clock, logger = silentLogger, isGuarded = false }: EngineWatch,
): EngineDirectory {
  if (observers.length === 0 && !isGuarded) return directory
  const told = new Set<RequestObserver>()
  const failed = (observer: RequestObserver, err: unknown): void => {
    if (told.has(observer)) return
    told.add(observer)
    const protocol = owners?.get(observer)
    logger.error({ protocol, err }, 'an observer of requests failed: logged only this time')
  }
  /** Calls all observers. Their errors are logged, as what they observe has been done already. */
  const tell = (to: (observer: RequestObserver) => unknown): void => {
    for (const observer of observers) {
      try {
        const answer = to(observer)
        // The rejection of a method that is async by mistake would end the process.
        if (answer instanceof Promise) answer.catch((err: unknown) => failed(observer, err))
      } catch (err) {
        failed(observer, err)
      }
    }
  }
  return wrapEngines(directory, (client, model) =>
    overriding(client, {
      submit(request, options) {
        const owned = isGuarded ? ofKeysTenant(request) : request
        const key = requestScope.getStore()?.key.name
        const submitted = { model, request: owned, at: clock.now(), key }
        const watches: { readonly observer: RequestObserver; readonly watch: RequestWatch }[] = []
        /** Reports an event to all watches; undefined: the end. */
        const onEvent = (event: GenerateEvent | undefined, error?: CllmError): void => {
          const now = clock.now()
          for (const { observer, watch } of watches) {
            try {
              const answer: unknown = event ? watch.onEvent(event, now) : watch.onEnd(now, error)
              if (answer instanceof Promise) answer.catch((err: unknown) => failed(observer, err))
            } catch (err) {
              // the other watches must still be called, and the client must get the rest
              failed(observer, err)
            }
          }
        }
        try {
          for (const observer of observers) {
            const made = observer.onSubmit(submitted)
            // An async observer is an error: one that refuses requests would otherwise let all of them in.
            const watch = made instanceof Promise ? synchronous(made, 'onSubmit') : made
            watches.push({ observer, watch })
          }
        } catch (error) {
          if (!CllmError.isInstance(error)) failed(observers[watches.length]!, error)
          // the observers that were called before need an end, too
          onEvent(undefined, CllmError.from(error))
          throw error
        }
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
          const { name: key, tenant } = requestScope.getStore()?.key ?? {}
          const ms = clock.now() - began
          const made = { model, tokens, ms, key, tenant, ...defined({ error }) }
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

/** The other methods of an engine, restricted to what a key may do. */
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
