import type { SchedulerEvent, SequenceView } from '@cllm/core'

/** What a tenant asked for and got. */
export interface Tenant {
  /** Service so far: weighted tokens, divided by the tenant's weight. */
  used: number
  /** What it may use before it has to stand back; only some orders count it. */
  allowed: number
  readonly weight: number
  /** In the order in which they came. */
  readonly waiting: Set<SequenceView>
  running: number
}

/** What a service costs. */
export interface Prices {
  /** Of a prompt token that has to be computed; default 1. */
  readonly inputWeight?: number
  /** Of a generated token; default 2. */
  readonly outputWeight?: number
  /** By tenant; who is not named has 1. Twice the weight is twice the service. */
  readonly weights?: Readonly<Record<string, number>>
}

/** Tenants who neither wait nor run are remembered up to this number. */
const idleTenants = 1000

/** Keeps account of who waits and what each tenant was served, from the events of a policy. */
export class TenantLedger {
  readonly #tenants = new Map<string, Tenant>()
  readonly #waiting = new Set<Tenant>()
  /** Generated tokens that were charged. */
  readonly #charged = new WeakMap<SequenceView, number>()
  readonly #prices: Required<Prices>
  #tidyAt = 2 * idleTenants

  /** @param onJoin - a tenant of whom nobody waited begins to wait */
  constructor(
    prices: Prices,
    private readonly onJoin: (tenant: Tenant) => void = () => undefined,
  ) {
    this.#prices = { inputWeight: 1, outputWeight: 2, weights: {}, ...prices }
  }

  /** The tenants that have waiting requests. */
  get waiting(): ReadonlySet<Tenant> {
    return this.#waiting
  }

  tenantOf({ tenant: name }: SequenceView): Tenant {
    const known = this.#tenants.get(name)
    if (known !== undefined) return known
    const { weights } = this.#prices
    const weight = (Object.hasOwn(weights, name) ? weights[name] : undefined) ?? 1
    const tenant = { used: 0, allowed: 0, weight, waiting: new Set<SequenceView>(), running: 0 }
    this.#tenants.set(name, tenant)
    return tenant
  }

  /** What the prompt of a request costs its tenant. */
  promptCost(request: SequenceView): number {
    return (this.#prices.inputWeight * request.remainingTokens) / this.tenantOf(request).weight
  }

  observe(event: SchedulerEvent): void {
    if (event.type === 'step') {
      for (const { request } of event.parts) this.#chargeOutput(request)
      return
    }
    const { request, type } = event
    const tenant = this.tenantOf(request)
    if (type === 'queued') this.#wait(tenant, request)
    if (type === 'admitted') {
      this.#goOn(tenant, request)
      tenant.running++
      // That it lost its slot and is computed again is not its tenant's doing.
      if (request.preemptions === 0) tenant.used += this.promptCost(request)
    }
    if (type === 'preempted') {
      tenant.running--
      this.#wait(tenant, request)
    }
    if (type === 'finished') {
      if (!this.#goOn(tenant, request)) tenant.running--
      this.#chargeOutput(request)
      this.#tidy()
    }
  }

  #wait(tenant: Tenant, request: SequenceView): void {
    if (tenant.waiting.size === 0) this.onJoin(tenant)
    tenant.waiting.add(request)
    this.#waiting.add(tenant)
  }

  /** Takes a request out of those that wait, and returns whether it was one of them. */
  #goOn(tenant: Tenant, request: SequenceView): boolean {
    const waited = tenant.waiting.delete(request)
    if (tenant.waiting.size === 0) this.#waiting.delete(tenant)
    return waited
  }

  #chargeOutput(request: SequenceView): void {
    const { generatedTokens } = request
    const charged = this.#charged.get(request) ?? 0
    if (generatedTokens === charged) return
    this.#charged.set(request, generatedTokens)
    const tenant = this.tenantOf(request)
    tenant.used += (this.#prices.outputWeight * (generatedTokens - charged)) / tenant.weight
  }

  /** Forgets idle tenants, those first that were served least, so that names cost no memory. */
  #tidy(): void {
    if (this.#tenants.size < this.#tidyAt) return
    const idle = [...this.#tenants].filter(([, { waiting, running }]) => {
      return waiting.size + running === 0
    })
    idle.sort(([, one], [, other]) => other.used - other.allowed - (one.used - one.allowed))
    for (const [name] of idle.slice(idleTenants)) this.#tenants.delete(name)
    this.#tidyAt = 2 * Math.max(idleTenants, this.#tenants.size)
  }
}
