import { type Clock, CllmError, type EngineClient, type EngineDirectory } from '@cllm/core'
import { Registry } from 'prom-client'
import type { KoaContext, KoaProtocol, KoaRouter } from '../koa-context.js'
import { observeEngines } from '../observe/observe-engines.js'
import type { HandledRoute } from '../request/api-route.js'
import { mountRoutes } from '../request/mount-routes.js'
import { loadedModels } from '../models/look-at-models.js'
import { EngineMetrics, type EngineAnswers } from './engine-metrics.js'
import { RequestMetrics } from './request-metrics.js'

/** An engine that does not answer for so long is down; a scrape has 10 s by default. */
const patienceMs = 2_000

/**
 * `GET /metrics` in Prometheus' text format; see `docs/metrics.md`. It counts the requests of all
 * protocols of its transport, and asks the engines when it is asked.
 */
export function metricsProtocol(): KoaProtocol {
  const registry = new Registry()
  const requests = new RequestMetrics(registry)
  const engines = new EngineMetrics(registry)

  const refresh = async (model: string, client: EngineClient): Promise<void> => {
    requests.policySet(model, (await client.getScheduler()).policy)
  }
  const scrape = async (ctx: KoaContext, directory: EngineDirectory): Promise<void> => {
    const { clock } = ctx.state.transport
    const answers = await Promise.all(
      loadedModels(directory).map(async (model) => {
        const client = directory.open(model, { peek: true })
        return [model, await ask(client, clock)] as const
      }),
    )
    // Written at once, so that two scrapes at a time do not count twice.
    engines.reset()
    for (const [model, answer] of answers) {
      if (answer === undefined) {
        engines.down(model)
        continue
      }
      requests.policySet(model, answer.scheduler.policy)
      engines.set(model, answer)
    }
    const text = registry.metrics()
    ctx.type = registry.contentType
    ctx.body = await text
  }

  const routes: readonly HandledRoute<EngineDirectory>[] = [
    {
      method: 'get',
      path: '/metrics',
      summary: 'Metrics for Prometheus',
      answers: ['text/plain'],
      handle: scrape,
    },
  ]

  return {
    name: 'metrics',
    routes,
    around(directory, { clock }) {
      const observed = observeEngines(directory, requests, clock)
      for (const model of loadedModels(directory)) {
        refresh(model, directory.open(model, { peek: true })).catch(() => {})
      }
      return observed
    },
    mount(router: KoaRouter, directory: EngineDirectory) {
      mountRoutes(router, routes, directory)
    },
  }
}

async function ask(client: EngineClient, clock: Clock): Promise<EngineAnswers | undefined> {
  const asked = Promise.all([client.info(), client.statistics(), client.getScheduler()])
  let cancel: (() => void) | undefined
  const tooLate = new Promise<never>((_resolve, reject) => {
    cancel = clock.at(clock.now() + patienceMs, () =>
      reject(new CllmError('engine_unavailable', 'The engine does not answer')),
    )
  })
  try {
    const [info, statistics, scheduler] = await Promise.race([asked, tooLate])
    return { info, statistics, scheduler }
  } catch {
    return undefined
  } finally {
    cancel?.()
  }
}
