import type { CllmError, Clock, EngineClient, EngineStatistics } from '@cllm/core'
import { z } from 'zod'
import { errorBody } from '../../errors/error-body.js'
import { Reply, type Answer, type Call, type QueryCallOf } from '../../routes/route.js'
import { answered, failureOf, unusable, loadedModels } from '../../engines/model-queries.js'
import { ratio, sum } from '../../request/usage.js'
import type { NativeContext } from './generate.js'

/** The query of `GET /health`. */
export const healthQuery = z.object({
  level: z.enum(['basic', 'detailed', 'full'], 'basic, detailed or full').default('basic'),
})

/** `GET /health[?level=basic|detailed|full]`; 503 if a part does not answer. */
export async function health(call: QueryCallOf<typeof healthQuery>, native: NativeContext) {
  const { clock, query } = call
  const models = loadedModels(call.engines)
  const [first] = models
  if (query.level === 'basic') {
    const failure = await failureOf(clock, call.engines)
    if (failure !== undefined) return degraded(failure)
    const data = { status: 'healthy', model_loaded: first !== undefined }
    // `status` is for clients of llama-server
    return { status: 'ok', success: true, data }
  }
  const engines = models.map((name) => call.engines.open(name, { peek: true }))
  const { components, waiting, workers } =
    first === undefined
      ? idle(unusable(call.engines))
      : together(await Promise.all(engines.map(async (engine) => await probe(clock, engine))))
  const broken = Object.entries(components).flatMap(([name, works]) => (works ? [] : [name]))
  const healthy = broken.length === 0
  const cause = first === undefined ? unusable(call.engines)?.message : undefined
  const error = { error: cause ?? `Not working: ${broken.join(', ')}`, code: 'engine_unavailable' }
  const body = {
    success: healthy,
    ...(healthy ? {} : error),
    data: {
      healthy,
      status: healthy ? 'ok' : 'degraded',
      components,
      ...(workers.length > 0 && { workers }),
      ...(query.level === 'full' ? inFull(native, components, waiting) : {}),
    },
  }
  return healthy ? body : new Reply(body, { status: 503 })
}

/** `GET /health/live`: whether this process answers at all, with or without an engine. */
export const live = (): Answer => ({ success: true, data: { status: 'alive' } })

/**
 * `GET /health/ready`: whether requests are accepted; 503 while no engine works and while stopping. A cluster's
 * front without workers is ready: requests wait there for one, and other fronts have none, either.
 */
export async function ready(call: Call): Promise<Answer> {
  const failure = await failureOf(call.clock, call.engines)
  if (failure !== undefined) return degraded(failure)
  return { success: true, data: { status: 'ready' } }
}

function degraded(error: CllmError): Reply {
  const data = { status: 'degraded', model_loaded: false }
  return new Reply({ ...errorBody(error), data }, { status: 503 })
}

/** The parts that are probed, under the original cLLM's names. */
const parts = ['scheduler', 'model_executor', 'tokenizer', 'request_queue'] as const

type Components = Readonly<Record<(typeof parts)[number], boolean>>

const componentsOf = (works: (part: keyof Components, index: number) => boolean): Components =>
  Object.fromEntries(parts.map((part, index) => [part, works(part, index)])) as Components

interface Findings {
  readonly components: Components
  /** The number of waiting requests. */
  readonly waiting: number
  readonly workers: NonNullable<EngineStatistics['workers']>['list']
}

/** The findings without a model in memory: only the loading of models may be broken. */
const idle = (error: CllmError | undefined): Findings => ({
  components: componentsOf((part) => part !== 'model_executor' || error === undefined),
  waiting: 0,
  workers: [],
})

/** The findings of all engines together: a part works if it does in any engine. */
const together = (all: readonly Findings[]): Findings => ({
  components: componentsOf((part) => all.some(({ components }) => components[part])),
  waiting: sum(all.map(({ waiting }) => waiting)),
  // The models of a cluster's front may list the same workers.
  workers: [
    ...new Map(all.flatMap(({ workers }) => workers.map((each) => [each.id, each]))).values(),
  ],
})

/** Sends a small query to every part of the engine. */
async function probe(clock: Clock, client: EngineClient): Promise<Findings> {
  const asked = [client.getScheduler(), client.info(), client.tokenize('health')]
  const [queue, ...others] = await Promise.allSettled([
    answered(clock, client.statistics()),
    ...asked.map((one: Promise<unknown>) => answered(clock, one)),
  ])
  const { waiting = 0, workers }: Partial<EngineStatistics> =
    queue.status === 'fulfilled' ? queue.value : {}
  const works = [...others, queue].map(({ status }) => status === 'fulfilled')
  return {
    components: componentsOf((_, index) => works[index]!),
    waiting,
    workers: workers?.list ?? [],
  }
}

/** The metrics of `full`. The original cLLM had a queue for HTTP and one for the scheduler; the only queue is both. */
function inFull(native: NativeContext, components: Components, waiting: number) {
  return {
    metrics: {
      scheduler_queue_size: String(waiting),
      http_queue_size: String(waiting),
      http_queue_max_size: String(native.maxQueuedRequests),
      http_average_wait_time: String(
        Math.round(1000 * ratio(native.waits.ms, native.waits.count)) / 1000,
      ),
    },
    dependencies: {
      model: components.model_executor ? 'ok' : 'error',
      tokenizer: components.tokenizer ? 'ok' : 'error',
    },
  }
}
