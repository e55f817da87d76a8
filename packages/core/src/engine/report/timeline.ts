import type { TimelineEntry, WaitReason } from '../../contracts/engine/request-report.js'
import { defined } from '../../defined.js'
import type { Sequence } from '../requests/sequence.js'

type Admitted = Pick<Sequence, 'slot' | 'computedTokens' | 'origin'>
type Spans = Extract<TimelineEntry, { readonly untilMs: number }>

/** More entries than this are put together with like ones. */
const mostEntries = 60

/** What happened to one request, in few entries however long it takes. */
export class Timeline {
  #entries: TimelineEntry[] = [{ type: 'queued', atMs: 0 }]
  /** The wait that it is in. */
  wait: Wait | undefined
  #lastStep = 0
  #lastStepEnd = 0

  constructor(private readonly arrival: number) {}

  /** All so far, and more if asked for, by time. */
  list(more: readonly TimelineEntry[]): TimelineEntry[] {
    return [...this.#entries, ...more].toSorted((a, b) => a.atMs - b.atMs)
  }

  /** It waits no more. */
  waited(now: number): void {
    const entry = this.waiting(now)
    if (entry !== undefined) this.#add(entry)
    this.wait = undefined
  }

  /** The wait that it is in so far, unless it has just begun. */
  waiting(now: number): TimelineEntry | undefined {
    if (this.wait === undefined || now <= this.wait.since) return undefined
    return { type: 'waited', ...this.#span(this.wait.since, now), reasons: this.wait.reasons(now) }
  }

  /** It got a slot; `steps` were computed before. */
  admitted(
    { slot = -1, computedTokens: cachedTokens, origin: cache }: Admitted,
    steps: number,
    now: number,
  ): void {
    const atMs = now - this.arrival
    this.#add({ type: 'admitted', atMs, slot, cachedTokens, ...defined({ cache }) })
    this.#lastStep = steps
    this.#lastStepEnd = now
  }

  preempted(now: number): void {
    this.#add({ type: 'preempted', atMs: now - this.arrival })
  }

  /** It took part in the step of this number, with prompt tokens or, in a decode, none. */
  ran(step: number, tokens: number, startedAt: number, now: number): void {
    const missed = step - this.#lastStep - 1
    if (missed > 0) {
      const span = this.#span(this.#lastStepEnd, startedAt)
      this.#add({ type: 'paused', ...span, steps: missed })
    }
    this.#lastStep = step
    this.#lastStepEnd = now
    if (tokens > 0) {
      this.#add({ type: 'prefill', ...this.#span(startedAt, now), chunks: 1, tokens })
    }
  }

  #span(from: number, until: number) {
    return { atMs: from - this.arrival, untilMs: until - this.arrival }
  }

  #add(entry: TimelineEntry): void {
    const entries = this.#entries
    const isFull = entries.length >= mostEntries
    const at = isFull ? entries.findLastIndex(({ type }) => type === entry.type) : -1
    const index = at === -1 ? entries.length - 1 : at
    const merged = merge(entries[index], entry, isFull)
    if (merged !== undefined) entries[index] = merged
    else if (!isFull) entries.push(entry)
  }
}

/** Two entries as one, if they are alike enough. */
function merge(
  before: TimelineEntry | undefined,
  next: TimelineEntry,
  isFull: boolean,
): TimelineEntry | undefined {
  if (before?.type === 'prefill' && next.type === 'prefill') {
    if (!isFull && before.tokens !== before.chunks * next.tokens) return undefined
    const chunks = before.chunks + 1
    return { ...spanning(before, next), chunks, tokens: before.tokens + next.tokens }
  }
  if (!isFull) return undefined
  if (before?.type === 'paused' && next.type === 'paused') {
    return { ...spanning(before, next), steps: before.steps + next.steps }
  }
  if (before?.type === 'waited' && next.type === 'waited') {
    return { ...spanning(before, next), reasons: sum(before.reasons, next.reasons) }
  }
  return undefined
}

function spanning<Entry extends Spans>(before: Entry, { untilMs }: Spans): Entry {
  return { ...before, untilMs }
}

type Reasons = Partial<Record<WaitReason, number>>

function sum(a: Readonly<Reasons>, b: Readonly<Reasons>): Reasons {
  const all = { ...a }
  for (const [reason, ms] of Object.entries(b) as [WaitReason, number][]) {
    all[reason] = (all[reason] ?? 0) + ms
  }
  return all
}

/** One wait of a request: for its first slot, or for one again after a preemption. */
export class Wait {
  #start: WaitStart
  /** Since when it is held back for a prefix that another request computes. */
  #heldSince: number | undefined
  /** Reasons collected from the finished parts of this wait. */
  #reasons: Reasons = {}

  /**
   * @param now - when it joined the queue: what comes before has no reason here
   * @param since - when it began, which may have been elsewhere
   */
  constructor(
    private readonly times: WaitAttribution,
    private readonly sequence: Sequence,
    now: number,
    readonly since = now,
  ) {
    this.#start = times.begin(now)
  }

  hold(now: number): void {
    this.#reasons = this.reasons(now)
    this.#heldSince = now
  }

  release(now: number): void {
    this.#reasons = this.reasons(now)
    this.#start = this.times.begin(now)
    this.#heldSince = undefined
  }

  /** Milliseconds by reason, up to now. */
  reasons(now: number): Reasons {
    const reasons = { ...this.#reasons }
    if (this.#heldSince === undefined) {
      this.times.explain(this.#start, this.sequence, now, reasons)
    } else if (now > this.#heldSince) {
      reasons.prefix = (reasons.prefix ?? 0) + now - this.#heldSince
    }
    return reasons
  }
}

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
type WaitStart = Totals

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
