import {
  checkModelDecision,
  CllmError,
  defined,
  type Engine,
  type EngineStatistics,
  messageOf,
  type ModelScheduler,
  PluginRegistry,
  pause,
} from '@cllm/core'
import { LocalEngineClient, ModelPool, type ModelPoolParts } from '@cllm/host'
import type { RequestService, ServiceParts } from '@cllm/simulation'

/** Models of a simulation. */
export interface SimulatedModelsOptions extends Required<Pick<ModelPoolParts, 'scheduler'>> {
  readonly names: readonly string[]
  /** Milliseconds that the load of a model takes, by its number. */
  readonly loadMs: (index: number) => number
  readonly maxLoaded: number
}

/** Several models in memory by turns: the pool of `cllm serve`, with engines on simulated time. */
export class SimulatedModels implements RequestService {
  readonly size: number
  readonly engines = new Set<Engine>()
  readonly #done: EngineStatistics[] = []
  readonly #pool: ModelPool
  readonly #open = new Map<string, AbortController>()
  #failure: { readonly cause: unknown } | undefined

  constructor(
    private readonly parts: ServiceParts,
    { names, loadMs, maxLoaded, scheduler }: SimulatedModelsOptions,
  ) {
    this.size = Math.min(maxLoaded, names.length)
    const { clock, createEngine } = parts
    const load = async (index: number) => {
      await pause(clock, loadMs(index))
      const engine = createEngine(index)
      this.engines.add(engine)
      const client = new LocalEngineClient(engine, new PluginRegistry(), { uint32: () => index })
      const close = async (): Promise<void> => {
        this.engines.delete(engine)
        this.#done.push(engine.statistics())
        await client.close()
      }
      return { client, close }
    }
    const models = names.map((name, index) => ({ name, load: async () => await load(index) }))
    const options = { maxLoaded, maxWaiting: Number.MAX_SAFE_INTEGER }
    // Notes a failure, after which the pool would go on with another scheduler.
    const decide: ModelScheduler['decide'] = (models, now) => {
      try {
        const decision = scheduler.policy.decide(models, now)
        checkModelDecision(decision, models)
        return decision
      } catch (cause) {
        this.#failure ??= { cause }
        throw cause
      }
    }
    const policy = { ...scheduler, policy: { decide } }
    this.#pool = new ModelPool({ models, clock, options, scheduler: policy })
  }

  get swaps(): number {
    const list = this.#pool.list().map((name) => this.#pool.status(name))
    return list.reduce((sum, { swaps = 0 }) => sum + swaps, 0)
  }

  /** @throws `policy_failed` when another scheduler than the one of this simulation decided */
  statistics(): readonly EngineStatistics[] {
    if (this.#failure !== undefined) {
      const message = `The model scheduler failed: ${messageOf(this.#failure.cause)}`
      throw new CllmError('policy_failed', message, this.#failure)
    }
    return [...this.#done, ...Array.from(this.engines, (engine) => engine.statistics())]
  }

  submit(...request: Parameters<RequestService['submit']>): void {
    void this.#serve(...request)
  }

  cancel(id: string): void {
    this.#open.get(id)?.abort()
  }

  async #serve(...[id, tokens, asked]: Parameters<RequestService['submit']>): Promise<void> {
    const { onEvent } = this.parts
    const { model, media, ...request } = asked
    const leaving = new AbortController()
    this.#open.set(id, leaving)
    try {
      const client = this.#pool.open(model)
      const stream = client.submit(
        { ...request, id, prompt: { tokens, ...defined({ media }) } },
        leaving,
      )
      for await (const event of stream) onEvent(id, event)
    } catch (error) {
      onEvent(id, { type: 'error', error: CllmError.from(error) })
    }
    this.#open.delete(id)
  }
}
