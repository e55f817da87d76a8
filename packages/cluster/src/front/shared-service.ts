import { type Clock, type RequestEvent, type TenantService, entryOf } from '@cllm/core'

/** Milliseconds between two messages about it. */
const everyMs = 250

interface Service {
  promptTokens: number
  generatedTokens: number
}

/**
 * What the workers did for tenants, as their front sees it: each is told what the others did, so that an
 * order like `fair` is fair over all of them. Requests without a tenant are not counted.
 */
export class SharedService {
  /** Since the last message, by worker and tenant. */
  readonly #done = new Map<string, Map<string, Service>>()
  #isDue = false

  /** @param tell tells a worker what was done elsewhere; `workers` are all of them */
  constructor(
    private readonly clock: Clock,
    private readonly workers: () => readonly string[],
    private readonly tell: (worker: string, services: readonly TenantService[]) => void,
  ) {}

  /** A worker did something for a tenant. */
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

/** What was done for a tenant, to be added to. */
const sumIn = (tenants: Map<string, Service>, tenant: string): Service =>
  entryOf(tenants, tenant, () => ({ promptTokens: 0, generatedTokens: 0 }))
