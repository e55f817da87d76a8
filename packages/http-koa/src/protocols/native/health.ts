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
  if (query.level === 'basic') {
    const failure = await failureOf(clock, call.engines)
    if (failure !== undefined) return degraded(failure)
    const data = { status: 'healthy', model_loaded: models.length > 0 }
    // `status` is for clients of llama-server
    return { status: 'ok', success: true, data }
  }
  const engines = models.map((name) => call.engines.open(name, { peek: true }))
  const found = await Promise.all(engines.map(async (engine) => await probe(clock, engine)))
  // Without a model in memory only the loading of models may be broken.
  const problem = found.length === 0 ? unusable(call.engines) : undefined
  const works = (part: Part): boolean =>
    found.length === 0
      ? part !== 'model_executor' || problem === undefined
      : found.some(({ working }) => working.includes(part))
  const components = Object.fromEntries(parts.map((part) => [part, works(part)])) as Components
  const broken = parts.filter((part) => !components[part])
  const healthy = broken.length === 0
  const cause = problem?.message ?? `Not working: ${broken.join(', ')}`
  // The models of a cluster's front may list the same workers.
  const workers = new Map(found.flatMap((one) => one.workers.map((each) => [each.id, each])))
  const body = {
    success: healthy,
    ...(healthy ? {} : { error: cause, code: 'engine_unavailable' }),
    data: {
      healthy,
      status: healthy ? 'ok' : 'degraded',
      components,
      ...(workers.size > 0 && { workers: [...workers.values()] }),
      ...(query.level === 'full' &&
        inFull(native, components, sum(found.map(({ waiting }) => waiting)))),
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

type Part = (typeof parts)[number]
type Components = Readonly<Record<Part, boolean>>

/** Sends a small query to every part of the engine. */
async function probe(clock: Clock, client: EngineClient) {
  const asked = [client.getScheduler(), client.info(), client.tokenize('health')]
  const [queue, ...others] = await Promise.allSettled([
    answered(clock, client.statistics()),
    ...asked.map((one: Promise<unknown>) => answered(clock, one)),
  ])
  const { waiting = 0, workers }: Partial<EngineStatistics> =
    queue.status === 'fulfilled' ? queue.value : {}
  const answers = [...others, queue]
  return {
    working: parts.filter((_, index) => answers[index]!.status === 'fulfilled'),
    /** The number of waiting requests. */
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
