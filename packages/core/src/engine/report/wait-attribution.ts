import type { WaitReason } from '../../contracts/engine/request-report.js'

/** A reason that applies to all waiting requests. */
export type CommonReason = Extract<WaitReason, 'step' | 'slots' | 'cells' | 'budget' | 'policy'>

/** How long each common reason has applied up to a point in time. */
interface Totals {
  readonly at: number
  readonly ms: Readonly<Record<CommonReason, number>>
}

/** The first admission of a request that came later than all admitted before it. */
interface Overtaking {
  readonly arrival: number
  readonly deadline: number | undefined
  readonly totals: Totals
}

/** Where a wait began. */
export type WaitStart = Totals

/** After more admissions than this, a wait is attributed to a later overtaking than the first. */
const mostOvertakings = 1024

/**
 * Attributes waits to reasons without reading the waiting requests: it sums up how long each reason
 * applied, so that any wait is the difference of two sums.
 */
export class WaitAttribution {
  readonly #ms: Record<CommonReason, number> = { step: 0, slots: 0, cells: 0, budget: 0, policy: 0 }
  #reason: CommonReason = 'step'
  #since = 0
  /** By time and arrival, both rising. */
  #overtakings: Overtaking[] = []

  /** From now on requests wait for this reason. */
  turn(reason: CommonReason, now: number): void {
    this.#ms[this.#reason] += Math.max(0, now - this.#since)
    this.#reason = reason
    this.#since = now
  }

  /** Records an admission, which may have overtaken requests that arrived earlier. */
  onAdmitted(arrival: number, deadline: number | undefined, now: number): void {
    if (arrival <= (this.#overtakings.at(-1)?.arrival ?? -Infinity)) return
    this.#overtakings.push({ arrival, deadline, totals: this.begin(now) })
    if (this.#overtakings.length > 2 * mostOvertakings) {
      this.#overtakings = this.#overtakings.slice(-mostOvertakings)
    }
  }

  /** A wait begins. */
  begin(now: number): WaitStart {
    const ms = { ...this.#ms }
    ms[this.#reason] += Math.max(0, now - this.#since)
    return { at: now, ms }
  }

  /** Milliseconds by reason of a wait from `start` until now, put into `reasons`. */
  explain(
    start: WaitStart,
    request: { readonly arrival: number; readonly deadline: number | undefined },
    now: number,
    reasons: Partial<Record<WaitReason, number>>,
  ): void {
    const overtaking = this.#overtakingOf(request.arrival, start.at, now)
    const end = overtaking?.totals ?? this.begin(now)
    for (const reason of ['step', 'slots', 'cells', 'budget', 'policy'] as const) {
      add(reasons, reason, end.ms[reason] - start.ms[reason])
    }
    if (overtaking === undefined) return
    const { deadline = Infinity } = request
    const isSooner = (overtaking.deadline ?? Infinity) < deadline
    add(reasons, isSooner ? 'deadline' : 'order', now - overtaking.totals.at)
  }

  /** The first admission of a later request since the wait began, found by halving. */
  #overtakingOf(arrival: number, since: number, now: number): Overtaking | undefined {
    let low = 0
    let high = this.#overtakings.length
    while (low < high) {
      const middle = (low + high) >> 1
      const { arrival: its, totals } = this.#overtakings[middle] as Overtaking
      if (its > arrival && totals.at >= since) high = middle
      else low = middle + 1
    }
    const found = this.#overtakings[low]
    return found !== undefined && found.totals.at < now ? found : undefined
  }
}

/** Adds milliseconds to a reason; none leave no trace. */
function add(reasons: Partial<Record<WaitReason, number>>, reason: WaitReason, ms: number): void {
  if (ms > 0) reasons[reason] = (reasons[reason] ?? 0) + ms
}
