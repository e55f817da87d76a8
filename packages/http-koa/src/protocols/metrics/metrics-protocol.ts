import { CllmError, type Clock, type EngineClient } from '@cllm/core'
import { z } from 'zod'
import { Registry } from './create-metrics.js'
import { type Answer, type Call, Reply, bindRoutes, get, type Route } from '../../routes/route.js'
import type { KoaProtocol } from '../../routes/koa-context.js'
import { boolean } from '../../fields/fields.js'
import { defineProtocol, PROTOCOLS, STARTED_AT } from '../../routes/define-protocol.js'
import { inTime, loadedModels } from '../../engines/model-queries.js'
import { type EngineAnswers, EngineMetrics } from './engine-metrics.js'
import { llamaServerMetrics } from './llama-server-metrics.js'
import { LoadWatch } from './load-watch.js'
import { RequestMetrics } from './request-metrics.js'

/** An engine without an answer for this long is down; a scrape's default timeout is 10 s. */
const patienceMs = 2_000

/** Settings of {@link metricsProtocol}. */
export interface MetricsProtocolOptions {
  /** When the server started, in milliseconds since the epoch; default 0. */
  readonly started?: number
  /** Whether the metrics are shown; else they are 501, as with llama-server. Default true. */
  readonly show?: boolean
  /** The protocols of the server, which may count what they could not keep; default: none does. */
  readonly protocols?: readonly KoaProtocol[]
}

const optionsSchema = z.object({ show: boolean.optional() })

/**
 * `GET /metrics` in Prometheus' text format; see `docs/metrics.md`. It counts the requests of all
 * protocols of its transport, and queries the engines on each scrape. The engines' figures are there
 * under llama-server's names, too. `GET /metrics/load` has a few gauges of it for programs that ask often.
 */
export function metricsProtocol({
  started = 0,
  show = true,
  protocols = [],
}: MetricsProtocolOptions = {}): KoaProtocol {
  const registry = new Registry()
  const requests = new RequestMetrics(registry)
  const engines = new EngineMetrics(registry)
  const load = new LoadWatch()

  const scrape = async ({ clock, engines: directory }: Call): Promise<Answer> => {
    if (!show) throw new CllmError('not_implemented', 'This server does not show its metrics')
    const loaded = loadedModels(directory)
    const answers = await Promise.all(
      loaded.map(async (model) => {
        const client = directory.open(model, { peek: true })
        return [model, await ask(client, clock)] as const
      }),
    )
    const others = directory.list().filter((model) => !loaded.includes(model))
    // Written at once, so that two scrapes at a time do not count twice.
    engines.reset()
    for (const { unkept } of protocols) engines.setUnkept(unkept)
    for (const model of directory.list()) engines.setLoads(directory.status(model))
    const counted = others.map((model) => engines.unloaded(model, directory.status(model).past))
    for (const [model, answer] of answers) {
      if (answer === undefined) {
        counted.push(engines.down(model))
        continue
      }
      requests.onPolicy(model, answer.scheduler.policy)
      engines.set(model, answer)
      counted.push(answer.statistics)
    }
    const text = registry.metrics()
    const own = llamaServerMetrics(
      counted.filter((one) => one !== undefined),
      requests.embedded,
    )
    return new Reply(`${await text}${own}`, {
      type: registry.contentType,
      headers: { 'Process-Start-Time-Unix': String(Math.floor(started / 1000)) },
    })
  }

  const routes: readonly Route<undefined>[] = [
    get('/metrics', 'metrics', 'Metrics for Prometheus', scrape, {
      isQuiet: true,
      answers: ['text/plain'],
    }),
    get(
      '/metrics/load',
      'open',
      'How busy the models are, for endpoint pickers and autoscalers',
      async ({ clock, engines: all }) =>
        new Reply(await load.read(all, clock), { type: load.contentType }),
      { isQuiet: true, answers: ['text/plain'] },
    ),
  ]

  return {
    name: 'metrics',
    routes: bindRoutes(routes, undefined),
    observe({ directory }) {
      requests.lookUpPolicy = async (model) =>
        (await directory.open(model, { peek: true }).getScheduler()).policy
      return requests
    },
  }
}

async function ask(client: EngineClient, clock: Clock): Promise<EngineAnswers | undefined> {
  const asked = Promise.all([client.info(), client.statistics(), client.getScheduler()])
  const answers = await inTime(clock, patienceMs, asked)
  if (answers === undefined) return undefined
  const [info, statistics, scheduler] = answers
  return { info, statistics, scheduler }
}

/** {@link metricsProtocol} by its name. */
export const metrics = defineProtocol({
  name: 'metrics',
  doc: 'Metrics for Prometheus at `/metrics`.',
  options: optionsSchema,
  create: ({ show = true }, services) =>
    metricsProtocol({
      started: services.get(STARTED_AT) ?? 0,
      show,
      protocols: services.get(PROTOCOLS) ?? [],
    }),
})
