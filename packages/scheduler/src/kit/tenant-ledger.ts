import type { SchedulerEvent, SequenceView, TenantService } from '@cllm/core'
import { entryOf, ownEntry } from '@cllm/core'
import { z } from 'zod'
import { positive } from './options.js'

/** The account of a tenant. */
export interface Tenant {
  /** Service so far: weighted tokens, divided by the tenant's weight. */
  used: number
  /** The service that it may use before other tenants go first; only some orders set it. */
  allowed: number
  readonly weight: number
  /** Its waiting requests, in the order of arrival. */
  readonly waiting: Set<SequenceView>
  running: number
}

/** The options of an order that charges tenants for their service. */
export const priceOptions = {
  inputWeight: positive
    .default(1)
    .describe('What a prompt token that is computed costs its tenant.'),
  outputWeight: positive.default(2).describe('What a generated token costs its tenant.'),
  weights: z
    .record(z.string(), positive)
    .default({})
    .describe("Each tenant's share, 1 if not named: twice the weight is twice the service."),
}

/** Prices of service: the values of {@link priceOptions}. */
export type Prices = z.output<z.ZodObject<typeof priceOptions>>

/** The most idle tenants that are remembered. */
const idleTenants = 1000

/** Tracks the waiting requests and the service of each tenant, from the events of a policy. */
export class TenantLedger {
  readonly #tenants = new Map<string, Tenant>()
  readonly #waiting = new Set<Tenant>()
  /** By request: the number of generated tokens already charged. */
  readonly #charged = new WeakMap<SequenceView, number>()
  #tidyAt = 2 * idleTenants

  /** @param onJoin - called when a tenant without waiting requests gets one */
  constructor(
    private readonly prices: Prices,
    private readonly onJoin: (tenant: Tenant) => void = () => undefined,
  ) {}

  /** The tenants that have waiting requests. */
  get waiting(): ReadonlySet<Tenant> {
    return this.#waiting
  }

  /** The account of a request's tenant. */
  tenantOf({ tenant }: Pick<SequenceView, 'tenant'>): Tenant {
    return this.#account(tenant)
  }

  /** The cost of a request's prompt for its tenant. */
  promptCost(request: SequenceView): number {
    return (this.prices.inputWeight * request.remainingTokens) / this.tenantOf(request).weight
  }

  /** Charges tenants for their service by other engines. */
  charge(services: readonly TenantService[]): void {
    const { inputWeight, outputWeight } = this.prices
    for (const { tenant: name, promptTokens, generatedTokens } of services) {
      const tenant = this.#account(name)
      const cost = inputWeight * promptTokens + outputWeight * generatedTokens
      tenant.used += cost / tenant.weight
    }
    this.#tidy()
  }

  /** Charges tenants for the event. */
  observe(event: SchedulerEvent): void {
    if (event.type === 'step') {
      for (const { request } of event.parts) this.#chargeOutput(request)
      return
    }
    const { request, type } = event
    const tenant = this.tenantOf(request)
    if (type === 'queued') {
      // The tokens of a continued request were charged when they were sampled.
      this.#charged.set(request, request.generatedTokens)
      this.#wait(tenant, request)
    }
    if (type === 'admitted') {
      this.#goOn(tenant, request)
      tenant.running++
      // Preemption is the scheduler's decision, so the tenant does not pay for computing the prompt again.
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

  #account(name: string): Tenant {
    return entryOf(this.#tenants, name, () => {
      const weight = ownEntry(this.prices.weights, name) ?? 1
      return { used: 0, allowed: 0, weight, waiting: new Set(), running: 0 }
    })
  }

  #wait(tenant: Tenant, request: SequenceView): void {
    if (tenant.waiting.size === 0) this.onJoin(tenant)
    tenant.waiting.add(request)
    this.#waiting.add(tenant)
  }

  /** Removes a request from the waiting ones; returns whether it was waiting. */
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
    tenant.used += (this.prices.outputWeight * (generatedTokens - charged)) / tenant.weight
  }

  /** Forgets idle tenants, the least served first, so that memory stays bounded. */
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
