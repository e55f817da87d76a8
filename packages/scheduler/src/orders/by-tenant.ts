import TinyQueue from 'tinyqueue'
import type { SequenceView, WaitingView } from '@cllm/core'
import { defineBoundedOrder } from '../kit/bounded-overtaking.js'
import { positive } from '../kit/options.js'
import { largest } from '../kit/find-victims.js'
import { priceOptions, TenantLedger, type Tenant } from '../kit/tenant-ledger.js'
import { cachedTokens } from '../kit/ranked-orders.js'

/**
 * The tenant that was served least is next, and its requests by arrival: the virtual token counter of
 * Sheng et al. (OSDI '24, arXiv 2401.00588). A counter grows by the prompt tokens computed and twice
 * the tokens generated, divided by the tenant's weight. A tenant that returns after a pause is lifted to
 * the lowest counter of the waiting tenants, so that it saves no credit for a burst. Prompt tokens that
 * a slot holds are free. Overtaking is bounded by {@link overtakingBound}.
 */
export const fair = defineBoundedOrder({
  name: 'fair',
  doc: 'The tenant that was served least, by tokens and weight; newcomers begin at the lowest counter of the waiting tenants (VTC, arXiv 2401.00588). For tenants.',
  options: priceOptions,
  create(prices) {
    /** The lowest counter of the tenants that waited when a request was admitted last. */
    let floor = 0
    const ledger = new TenantLedger(prices, (tenant) => {
      tenant.used = Math.max(tenant.used, floor)
    })

    return {
      *next({ waiting }) {
        const all = Array.from(ledger.waiting, (tenant, turn) => {
          return { used: tenant.used, turn, requests: tenant.waiting.values() }
        })
        // Of equals, the tenant that began to wait first.
        const queue = new TinyQueue(all, (a, b) => a.used - b.used || a.turn - b.turn)
        floor = Math.max(floor, queue.peek()?.used ?? 0)
        for (let least = queue.pop(); least !== undefined; least = queue.pop()) {
          const { value: request, done } = least.requests.next()
          if (done === true) continue
          if (waiting.has(request.id)) {
            yield request
            least.used += ledger.promptCost(request)
          }
          queue.push(least)
        }
      },
      arrivalRank: (request) => ledger.tenantOf(request).used,
      victim: ({ running }) => largest(running, (request) => ledger.tenantOf(request).used),
      observe: (event) => ledger.observe(event),
      onServedElsewhere: (services) => ledger.charge(services),
    }
  },
})

/** Requests that are ranked at once, over all tenants. */
const rankedAtOnce = 128

/**
 * Deficit longest prefix match (Cao et al., arXiv 2501.14312): the longest cached prefix first, among
 * the tenants that have something left of their quantum; all get a new one when none has. Between
 * `lpm`, the fastest, and `fair`, the fairest. It ranks the first 128 that wait, of each tenant as
 * many. Overtaking is bounded by {@link overtakingBound}.
 */
export const dlpm = defineBoundedOrder({
  name: 'dlpm',
  doc: 'Deficit longest prefix match: `lpm` among the tenants with some `quantum` left; when none has any, all get a new one (arXiv 2501.14312). For tenants with long prefixes.',
  options: {
    quantum: positive
      .default(2048)
      .describe('Service of a tenant per round, before the others get theirs.'),
    ...priceOptions,
  },
  create({ quantum, ...prices }) {
    const ledger = new TenantLedger(prices, (tenant) => {
      // An idle tenant does not save credit.
      tenant.allowed = Math.min(tenant.allowed, tenant.used)
    })
    return {
      *next({ waiting }) {
        const round = new Round(ledger.waiting, waiting, quantum)
        for (let found = true; found;) {
          found = false
          for (const request of round.byPrefix()) {
            const tenant = ledger.tenantOf(request)
            if (round.credit(tenant) <= 0) continue
            found = true
            yield request
            round.take(tenant, request, ledger.promptCost(request))
          }
        }
      },
      arrivalRank: (request) => ledger.tenantOf(request).used,
      observe: (event) => ledger.observe(event),
      onServedElsewhere: (services) => ledger.charge(services),
    }
  },
})

/** The choice of one plan: what is taken counts before it is charged. */
class Round {
  readonly #spent = new Map<Tenant, number>()
  readonly #taken = new Set<SequenceView>()

  constructor(
    private readonly tenants: ReadonlySet<Tenant>,
    private readonly waiting: WaitingView,
    private readonly quantum: number,
  ) {}

  credit(tenant: Tenant): number {
    return tenant.allowed - tenant.used - (this.#spent.get(tenant) ?? 0)
  }

  take(tenant: Tenant, request: SequenceView, cost: number): void {
    this.#spent.set(tenant, (this.#spent.get(tenant) ?? 0) + cost)
    this.#taken.add(request)
  }

  /** The waiting requests of the tenants in credit, the longest cached prefix first. */
  byPrefix(): SequenceView[] {
    const left = [...this.tenants].map((tenant) => ({ tenant, requests: this.#left(tenant) }))
    const tenants = this.#inCredit(left.filter(({ requests }) => requests.length > 0))
    const each = Math.ceil(rankedAtOnce / tenants.length)
    const requests = tenants.slice(0, rankedAtOnce).flatMap((one) => one.requests.slice(0, each))
    return requests
      .map((request) => ({ request, cached: cachedTokens(request) }))
      .sort((a, b) => b.cached - a.cached || a.request.arrival - b.request.arrival)
      .map(({ request }) => request)
  }

  /** All tenants get a new quantum when none has any left. */
  #inCredit<Entry extends { tenant: Tenant }>(waiting: readonly Entry[]): Entry[] {
    const most = Math.max(...waiting.map(({ tenant }) => this.credit(tenant)))
    if (waiting.length > 0 && most <= 0) {
      const rounds = Math.floor(-most / this.quantum) + 1
      for (const { tenant } of waiting) tenant.allowed += rounds * this.quantum
    }
    return waiting.filter(({ tenant }) => this.credit(tenant) > 0)
  }

  /** The first requests of a tenant that are not taken. */
  #left({ waiting }: Tenant): SequenceView[] {
    const left: SequenceView[] = []
    for (const request of waiting) {
      if (left.length === rankedAtOnce) break
      if (this.waiting.has(request.id) && !this.#taken.has(request)) left.push(request)
    }
    return left
  }
}
