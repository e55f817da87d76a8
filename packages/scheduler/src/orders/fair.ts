import type { SequenceView } from '@cllm/core'
import TinyQueue from 'tinyqueue'
import { defineBoundedOrder } from '../kit/bounded-overtaking.js'
import { largest } from '../kit/find-victims.js'
import { priceOptions, TenantLedger } from '../kit/tenant-ledger.js'

interface Candidate {
  used: number
  /** Breaks ties: the tenant that began to wait first. */
  readonly turn: number
  readonly requests: Iterator<SequenceView>
}

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

    function candidates(): TinyQueue<Candidate> {
      const list = Array.from(ledger.waiting, ({ used, waiting }, turn): Candidate => {
        return { used, turn, requests: waiting.values() }
      })
      return new TinyQueue(list, (one, other) => one.used - other.used || one.turn - other.turn)
    }

    return {
      *next({ waiting }) {
        const queue = candidates()
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
