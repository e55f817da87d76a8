import type { TimelineEntry, WaitReason } from '../../contracts/engine/request-report.js'
import { defined } from '../../defined.js'
import type { Sequence } from '../requests/sequence.js'
import type { Wait } from './wait.js'

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

type Reasons = Readonly<Partial<Record<WaitReason, number>>>

function sum(a: Reasons, b: Reasons): Reasons {
  const all = { ...a }
  for (const [reason, ms] of Object.entries(b) as [WaitReason, number][]) {
    all[reason] = (all[reason] ?? 0) + ms
  }
  return all
}
