import type {
  RequestReport,
  TimelineEntry,
  WaitReason,
} from '../../contracts/engine/request-report.js'
import type { RequestEnd } from '../../contracts/engine/engine-observer.js'
import { defined, lowestWhere } from '../../defined.js'
import type { Sequence } from '../requests/sequence.js'

/** Beyond this number of entries, similar ones are merged. */
const mostEntries = 60

/** How far a request has come, for its report. */
interface Progress extends Pick<RequestEnd, 'usage' | 'timings'> {
  readonly state: RequestReport['state']
}

/**
 * The history of one request, in few entries however long it takes. Its waits, at first and after each preemption, are
 * explained by the reasons that applied meanwhile.
 */
export class Timeline {
  readonly #entries: TimelineEntry[] = [{ type: 'queued', atMs: 0 }]
  #lastStep = 0
  #lastStepEnd = 0
  /** When its present wait began; undefined: it has a slot. */
  #waitsSince: number | undefined
  /** The beginning of the part of the wait that is not in `#reasons` yet. */
  #start: WaitStart
  /** The reasons collected so far. */
  #reasons: Reasons = {}
  /** Since when it is held back: for a prefix that another request computes, or for the encoder. */
  #heldSince: number | undefined

  /** @param now - when it joined the queue; earlier waits are known by `modelWait` and `encodeWait` */
  constructor(
    readonly sequence: Sequence,
    private readonly waits: WaitAttribution,
    now: number,
  ) {
    const { turn = 0, load = 0 } = sequence.request.modelWait ?? {}
    add(this.#reasons, 'turn', turn)
    add(this.#reasons, 'load', load)
    const { encode = 0, encoder = 0 } = sequence.encodeWait ?? {}
    add(this.#reasons, 'encode', encode)
    add(this.#reasons, 'encoder', encoder)
    this.#waitsSince = Math.min(sequence.arrival, now - turn - load - encode - encoder)
    this.#start = waits.begin(now)
  }

  hold(now: number): void {
    this.#reasons = this.reasons(now)
    this.#heldSince = now
  }

  release(now: number): void {
    this.#reasons = this.reasons(now)
    this.#start = this.waits.begin(now)
    this.#heldSince = undefined
  }

  /** Why it has waited so far, in milliseconds; empty while it has a slot. */
  reasons(now: number): Reasons {
    const reasons = { ...this.#reasons }
    if (this.#waitsSince === undefined) return reasons
    const held = this.#heldSince
    if (held === undefined) this.waits.explain(this.#start, this.sequence, now, reasons)
    else add(reasons, this.sequence.encoding === undefined ? 'prefix' : 'encode', now - held)
    return reasons
  }

  /** It got a slot; `steps` were computed before. */
  admitted(steps: number, now: number): void {
    const { arrival, slot = -1, computedTokens: cachedTokens, origin: cache } = this.sequence
    const waited = this.#waiting(now)
    if (waited !== undefined) this.#add(waited)
    this.#add({ type: 'admitted', atMs: now - arrival, slot, cachedTokens, ...defined({ cache }) })
    this.#waitsSince = this.#heldSince = undefined
    this.#reasons = {}
    this.#lastStep = steps
    this.#lastStepEnd = now
  }

  preempted(now: number): void {
    const { arrival, givesWay } = this.sequence
    if (!givesWay) this.#add({ type: 'preempted', atMs: now - arrival })
    this.#waitsSince = now
    this.#start = this.waits.begin(now)
  }

  /** It took part in the step with this number; `tokens` are prompt tokens, 0 for a decode. */
  ran(step: number, tokens: number, startedAt: number, now: number): void {
    const { arrival } = this.sequence
    const atMs = startedAt - arrival
    const steps = step - this.#lastStep - 1
    if (steps > 0) {
      this.#add({ type: 'paused', atMs: this.#lastStepEnd - arrival, untilMs: atMs, steps })
    }
    this.#lastStep = step
    this.#lastStepEnd = now
    if (tokens === 0) return
    this.#add({ type: 'prefill', atMs, untilMs: now - arrival, chunks: 1, tokens })
  }

  /** The report so far, with its end if it has ended. */
  report({ state, usage, timings }: Progress, now: number, end?: TimelineEntry): RequestReport {
    const { id, arrival, priority, tenant, session, forecast, parting, firstTokenAt } =
      this.sequence
    const timeline = [...this.#entries]
    if (firstTokenAt !== undefined) {
      const atMs = firstTokenAt - arrival
      let index = timeline.length
      while ((timeline[index - 1]?.atMs ?? 0) > atMs) index--
      timeline.splice(index, 0, { type: 'first_token', atMs })
    }
    const waiting = this.#waiting(now)
    if (waiting !== undefined) timeline.push(waiting)
    if (end !== undefined) timeline.push(end)
    const more = defined({ session, forecast, parting })
    return { id, state, arrival, priority, tenant, ...more, usage, timings, timeline }
  }

  /** The present wait so far, unless it has just begun. */
  #waiting(now: number): TimelineEntry | undefined {
    const since = this.#waitsSince
    if (since === undefined || now <= since) return undefined
    const { arrival } = this.sequence
    const span = { atMs: since - arrival, untilMs: now - arrival }
    return { type: 'waited', ...span, reasons: this.reasons(now) }
  }

  /** Adds an entry, or merges it with a similar one. */
  #add(next: TimelineEntry): void {
    const entries = this.#entries
    const isFull = entries.length >= mostEntries
    const at = isFull ? entries.findLastIndex(({ type }) => type === next.type) : -1
    const index = at === -1 ? entries.length - 1 : at
    const before = entries[index]
    if (before?.type === 'prefill' && next.type === 'prefill') {
      const isAlike = before.tokens === before.chunks * next.tokens
      if (isFull || isAlike) {
        const { untilMs } = next
        const tokens = before.tokens + next.tokens
        entries[index] = { ...before, untilMs, chunks: before.chunks + 1, tokens }
        return
      }
    }
    if (!isFull) {
      entries.push(next)
    } else if (before?.type === 'paused' && next.type === 'paused') {
      entries[index] = { ...before, untilMs: next.untilMs, steps: before.steps + next.steps }
    } else if (before?.type === 'waited' && next.type === 'waited') {
      const reasons = sum(before.reasons, next.reasons)
      entries[index] = { ...before, untilMs: next.untilMs, reasons }
    }
  }
}

type Reasons = Partial<Record<WaitReason, number>>

function sum(a: Readonly<Reasons>, b: Readonly<Reasons>): Reasons {
  const all = { ...a }
  for (const [reason, ms] of Object.entries(b)) add(all, reason as WaitReason, ms)
  return all
}

/** A reason that applies to all waiting requests. */
export type CommonReason = Extract<WaitReason, 'step' | 'slots' | 'cells' | 'budget' | 'policy'>

/** A point in time, and how long each common reason had applied until then. */
interface WaitStart {
  readonly at: number
  readonly ms: Readonly<Record<CommonReason, number>>
}

type Due = Pick<Sequence, 'arrival' | 'deadline'>

/** The first admission of a request that came later than all admitted before it. */
interface Overtaking extends Due {
  readonly totals: WaitStart
}

/** After more admissions than this, a wait is attributed to a later overtaking than the first. */
const mostOvertakings = 1024

/**
 * Attributes waits to reasons without reading the waiting requests: it sums up how long each reason applied, so that the
 * reasons of any wait are the difference of two sums.
 */
export class WaitAttribution {
  readonly #ms: Record<CommonReason, number> = { step: 0, slots: 0, cells: 0, budget: 0, policy: 0 }
  #reason: CommonReason = 'step'
  #since = 0
  /** By time and arrival, both rising. */
  #overtakings: Overtaking[] = []

  /** From now on waiting requests wait for this reason. */
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
  explain(start: WaitStart, request: Due, now: number, reasons: Reasons): void {
    // The first admission of a later arrival since the wait began, by binary search.
    const overtakings = this.#overtakings
    const first = lowestWhere(0, overtakings.length, (index) => {
      const { arrival, totals } = overtakings[index]!
      return arrival > request.arrival && totals.at >= start.at
    })
    const found = overtakings[first]
    const overtaking = found !== undefined && found.totals.at < now ? found : undefined
    const end = overtaking?.totals ?? this.begin(now)
    for (const reason of ['step', 'slots', 'cells', 'budget', 'policy'] as const) {
      add(reasons, reason, end.ms[reason] - start.ms[reason])
    }
    if (overtaking === undefined) return
    const { deadline = Infinity } = request
    const isSooner = (overtaking.deadline ?? Infinity) < deadline
    add(reasons, isSooner ? 'deadline' : 'order', now - overtaking.totals.at)
  }
}

/** Adds milliseconds to a reason, if there are any. */
function add(reasons: Reasons, reason: WaitReason, ms: number): void {
  if (ms > 0) reasons[reason] = (reasons[reason] ?? 0) + ms
}
