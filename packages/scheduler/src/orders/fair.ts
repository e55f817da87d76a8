import type { SequenceView } from '@cllm/core'
import TinyQueue from 'tinyqueue'
import { boundedOvertaking, type PatienceOptions } from '../bounded-overtaking.js'
import type { Order } from '../order.js'
import { type Prices, TenantLedger } from '../tenant-ledger.js'

/** Options of {@link fair}. */
export interface FairOptions extends PatienceOptions, Prices {}

interface Candidate {
  used: number
  /** Breaks ties: whose tenant began to wait first. */
  readonly turn: number
  readonly requests: Iterator<SequenceView>
}

/**
 * The tenant that was served least is next, and its requests by arrival: the virtual token counter of
 * Sheng et al. (OSDI '24, arXiv 2401.00588). A counter grows by the prompt tokens computed and twice
 * the tokens generated, divided by the tenant's weight; whoever comes back after a pause is lifted to
 * the lowest counter of those that wait, so that nobody saves up for a burst. Prompt tokens that a
 * slot holds are free. Overtaking is bounded by {@link overtakingBound}.
 */
export function fair(options: FairOptions = {}): Order {
  const { inputWeight = 1, outputWeight = 2, weights = {}, patience } = options
  /** The lowest counter of those that waited when somebody was admitted last. */
  let floor = 0
  const ledger = new TenantLedger({ inputWeight, outputWeight, weights }, (tenant) => {
    tenant.used = Math.max(tenant.used, floor)
  })

  function candidates(): TinyQueue<Candidate> {
    const list: Candidate[] = []
    for (const { used, waiting } of ledger.waiting) {
      list.push({ used, turn: list.length, requests: waiting.values() })
    }
    return new TinyQueue(list, (one, other) => one.used - other.used || one.turn - other.turn)
  }

  const order: Order = {
    name: 'fair',
    options: { inputWeight, outputWeight, weights },
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
    observe: (event) => ledger.observe(event),
  }
  return boundedOvertaking(order, patience)
}
