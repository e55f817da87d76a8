import { CllmError, defined, type EngineStatistics } from '@cllm/core'
import { z } from 'zod'
import { pastOf } from '@cllm/host'
import { Registry, tellMetrics } from './create-metrics.js'
import { type Answer, type Call, Reply, bindRoutes, get, type Route } from '../../routes/route.js'
import type { KoaProtocol } from '../../routes/koa-context.js'
import { boolean } from '../../fields/fields.js'
import { defineProtocol, PROTOCOLS, STARTED_AT } from '../../routes/define-protocol.js'
import { inTime, loadedModels } from '../../engines/model-queries.js'
import { type EngineReport, loadsOf, presentOf, totalsOf, unkeptOf } from './engine-metrics.js'
import { LoadWatch } from './load-watch.js'
import { engineMetrics } from './metric-table.js'
import { RequestMetrics } from './request-metrics.js'
import { ratio, sum } from '../../request/usage.js'

/** Milliseconds after which an engine that does not answer counts as down; Prometheus' scrapes time out after 10 s. */
const patienceMs = 2_000

/** Settings of {@link metricsProtocol}. */
export interface MetricsProtocolOptions {
  /** When the server started, in milliseconds since the epoch; default 0. */
  readonly started?: number
  /** Whether the metrics are shown; otherwise they answer 501, as in llama-server. Default true. */
  readonly show?: boolean
  /** The protocols of the server, which may count answers that they could not store; default: none. */
  readonly protocols?: readonly KoaProtocol[]
}

const optionsSchema = z.object({ show: boolean.optional() })

/**
 * `GET /metrics` in Prometheus' text format; see `docs/metrics.md`. It counts the requests of all
 * protocols of its transport, and queries the engines on each scrape. The engines' figures are also shown
 * under llama-server's names. `GET /metrics/load` has a few of the gauges, for programs that poll often.
 */
export function metricsProtocol(options: MetricsProtocolOptions = {}): KoaProtocol {
  const { started = 0, show = true, protocols = [] } = options
  const registry = new Registry()
  const requests = new RequestMetrics(registry)
  const load = new LoadWatch()
  /** The last statistics of each engine. */
  const last = new Map<string, EngineStatistics>()
  /** The counters of a model without an engine: the last statistics if they are newer, as the engine may have died. */
  const pastOfModel = (model: string, past?: EngineStatistics): EngineStatistics | undefined => {
    const said = last.get(model)
    return said !== undefined && said.steps > (past?.steps ?? -1) ? pastOf(said) : past
  }

  const scrape = async ({ clock, engines: directory }: Call): Promise<Answer> => {
    if (!show) throw new CllmError('not_implemented', 'This server does not show its metrics')
    const loaded = loadedModels(directory)
    const answers = await Promise.all(
      loaded.map(async (model) => {
        const client = directory.open(model, { peek: true })
        const asked = Promise.all([client.info(), client.statistics(), client.getScheduler()])
        return [model, await inTime(clock, patienceMs, asked)] as const
      }),
    )
    const others = directory.list().filter((model) => !loaded.includes(model))
    const told: EngineReport[] = unkeptOf(protocols)
    const counted: EngineStatistics[] = []
    const count = (model: string, statistics: EngineStatistics | undefined): void => {
      if (statistics === undefined) return
      counted.push(statistics)
      told.push([model, totalsOf(statistics)])
    }
    for (const model of directory.list()) told.push([model, loadsOf(directory.status(model))])
    for (const model of others) count(model, pastOfModel(model, directory.status(model).past))
    for (const [model, answer] of answers) {
      if (answer === undefined) {
        told.push([model, { cllm_engine_up: 0 }])
        count(model, pastOfModel(model))
        continue
      }
      const [info, statistics, scheduler] = answer
      last.set(model, statistics)
      requests.onPolicy(model, scheduler.policy)
      told.push([model, presentOf(info, statistics, scheduler)])
      count(model, statistics)
    }
    const own = llamaServerMetrics(counted, requests.embedded)
    const text = `${await registry.metrics()}\n${await tellMetrics(engineMetrics, told)}${own}`
    return new Reply(text, {
      type: registry.contentType,
      headers: { 'Process-Start-Time-Unix': String(Math.floor(started / 1000)) },
    })
  }

  const tellLoad = async ({ clock, engines: all }: Call) =>
    new Reply(await load.read(all, clock), { type: registry.contentType })

  const quiet = { isQuiet: true, answers: ['text/plain'] }
  const routes: readonly Route<undefined>[] = [
    get('/metrics', 'metrics', 'Metrics for Prometheus', scrape, quiet),
    get(
      '/metrics/load',
      'open',
      'How busy the models are, for endpoint pickers and autoscalers',
      tellLoad,
      quiet,
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

/** {@link metricsProtocol} as a definition. */
export const metrics = defineProtocol({
  name: 'metrics',
  doc: 'Metrics for Prometheus at `/metrics`.',
  options: optionsSchema,
  create({ show }, services) {
    const [started, protocols] = [services.get(STARTED_AT), services.get(PROTOCOLS)]
    return metricsProtocol(defined({ started, show, protocols }))
  },
})

/**
 * The figures of all models together under llama-server's names, for its dashboards.
 *
 * @param models - the statistics of all models, also of those that are no longer in memory
 * @param embedded - the embedded inputs, which llama-server counts as prompts
 */
function llamaServerMetrics(
  models: readonly EngineStatistics[],
  embedded: { readonly tokens: number; readonly inputs: number },
): string {
  const all = (of: (model: EngineStatistics) => number): number => sum(models.map(of))
  const steps = all((model) => model.steps)
  const predicted = all((model) => model.generatedTokens)
  const promptSeconds = all((model) => model.prefillMs / 1000)
  const predictedSeconds = all((model) => (model.decodeMs - model.prefillMs) / 1000)
  const prompt = all((model) => model.promptTokens - model.cachedTokens)
  // includes prompts that are in progress or were computed twice, as their time is included, too
  const computed = all((model) => model.prefillTokens)
  const busy = all((model) => model.stepSequences.sum)
  const longest = models.flatMap(({ slots }) => slots.map(({ tokens }) => tokens))
  const drafts = all(({ speculation }) => speculation?.drafts ?? 0)
  const drafted = all(({ speculation }) => speculation?.draftTokens ?? 0)
  const accepted = all(({ speculation }) => speculation?.acceptedTokens ?? 0)
  const figures: [name: string, help: string, value: number][] = [
    ['prompt_tokens_total', 'Prompt tokens computed.', prompt + embedded.tokens],
    ['prompt_tokens_cached_total', 'Prompt tokens used again.', all((one) => one.cachedTokens)],
    ['prompt_seconds_total', "Prompts' share of the passes.", promptSeconds],
    ['tokens_predicted_total', 'Generated tokens.', predicted],
    ['tokens_predicted_seconds_total', "Generation's share of the passes.", predictedSeconds],
    ['n_decode_total', 'Forward passes.', steps + embedded.inputs],
    ['n_tokens_max', 'Most tokens in a slot now.', Math.max(0, ...longest)],
    ['spec_decode_num_drafts_total', 'Drafts that were verified.', drafts],
    ['spec_decode_num_draft_tokens_total', 'Draft tokens that were verified.', drafted],
    ['spec_decode_num_accepted_tokens_total', 'Those drawn.', accepted],
    ['prompt_tokens_seconds', 'Prompt tokens per second.', ratio(computed, promptSeconds)],
    [
      'predicted_tokens_seconds',
      'Generated tokens per second.',
      ratio(predicted, predictedSeconds),
    ],
    ['requests_processing', 'Requests in slots.', all((model) => model.running)],
    ['requests_deferred', 'Requests that wait.', all((model) => model.waiting)],
    ['n_busy_slots_per_decode', 'Mean busy slots of a pass.', ratio(busy, steps)],
  ]
  return figures
    .map(([name, help, value]) => {
      const full = `llamacpp:${name}`
      const type = /_total$|^n_tokens_max$/.test(name) ? 'counter' : 'gauge'
      return `# HELP ${full} ${help}\n# TYPE ${full} ${type}\n${full} ${value}\n`
    })
    .join('')
}
