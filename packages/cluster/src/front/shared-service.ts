import { type Clock, type RequestEvent, type TenantService, entryOf } from '@cllm/core'

/** The interval of messages in milliseconds. */
const everyMs = 250

interface Service {
  promptTokens: number
  generatedTokens: number
}

/**
 * Counts what each worker did for tenants of this front, and tells the others, so that a policy like `fair` is fair
 * over all workers. Requests without a tenant are not counted.
 */
export class SharedService {
  /** The service since the last message, by worker and tenant. */
  readonly #done = new Map<string, Map<string, Service>>()
  #isDue = false

  /** @param tell sends a worker the service of the other ones; `workers`: the ids of all */
  constructor(
    private readonly clock: Clock,
    private readonly workers: () => readonly string[],
    private readonly tell: (worker: string, services: readonly TenantService[]) => void,
  ) {}

  /** Counts an event of a tenant's request at a worker. */
  onEvent(worker: string, tenant: string, event: RequestEvent): void {
    if (tenant === '' || (event.type !== 'token' && event.type !== 'end')) return
    this.#arm()
    const own = entryOf(this.#done, worker, () => new Map<string, Service>())
    const sum = sumIn(own, tenant)
    if (event.type === 'token') sum.generatedTokens++
    else sum.promptTokens += Math.max(0, event.usage.promptTokens - event.usage.cachedTokens)
  }

  #arm(): void {
    if (this.#isDue) return
    this.#isDue = true
    this.clock.at(this.clock.now() + everyMs, () => this.#flush())
  }

  #flush(): void {
    this.#isDue = false
    for (const worker of this.workers()) {
      const elsewhere = new Map<string, Service>()
      for (const [other, tenants] of this.#done) {
        if (other === worker) continue
        for (const [tenant, { promptTokens, generatedTokens }] of tenants) {
          const sum = sumIn(elsewhere, tenant)
          sum.promptTokens += promptTokens
          sum.generatedTokens += generatedTokens
        }
      }
      const services = [...elsewhere].map(([tenant, service]) => ({ tenant, ...service }))
      if (services.length > 0) this.tell(worker, services)
    }
    this.#done.clear()
  }
}

/** The sum of a tenant, which begins at zero. */
const sumIn = (tenants: Map<string, Service>, tenant: string): Service =>
  entryOf(tenants, tenant, () => ({ promptTokens: 0, generatedTokens: 0 }))
