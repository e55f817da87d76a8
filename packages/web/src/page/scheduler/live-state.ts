import type { ActivityFrame, ActivitySpan, EngineActivity } from '@cllm/core'

/** Milliseconds that the Gantt chart shows. */
export const shownMs = 20_000
/** Milliseconds that figures cover. */
export const figuresMs = 60_000
/** The most spans to draw. */
const mostSpans = 4000
/** Ratio of the bounds of successive ITL buckets. */
const itlBase = 1.15

/** The page's state of an engine: its activity now, and the last minute. */
export interface LiveState extends Omit<EngineActivity, 'frames'> {
  /** Spans of the last 20 seconds, sorted by end. */
  readonly spans: readonly ActivitySpan[]
  /** Frames of the last minute. */
  readonly frames: readonly Omit<ActivityFrame, 'spans'>[]
  /** The events that `lost` sums up: when and how many, in the last minute. */
  readonly losses: readonly { readonly atMs: number; readonly count: number }[]
}

/** Props of components that show the live view. */
export interface LiveProps {
  readonly state: LiveState
}

/** The state after a message of the live view. */
export function withActivity(state: LiveState | undefined, activity: EngineActivity): LiveState {
  const { frames: told, ...now } = activity
  // If another page asked the server meanwhile, the newest frame comes twice. A smaller cursor means that the
  // engine has restarted.
  const known = state === undefined || now.cursor < state.cursor ? 0 : state.cursor
  const frames = told.filter(({ number }) => number > known)
  const since = now.now - shownMs
  const old = (state?.spans ?? []).filter(({ untilMs }) => untilMs > since)
  const spans = joined([...old, ...frames.flatMap((frame) => frame.spans)])
  const sums = frames.map(({ spans: _spans, ...others }) => others)
  const all = [...(state?.frames ?? []), ...sums]
  const isRecent = (atMs: number): boolean => atMs > now.now - figuresMs
  const losses = [...(state?.losses ?? []), { atMs: now.now, count: now.lost }].filter(
    ({ atMs, count }) => count > 0 && isRecent(atMs),
  )
  return {
    ...now,
    lost: sum(losses, ({ count }) => count),
    losses,
    spans: spans.slice(-mostSpans),
    frames: all.filter(({ untilMs }) => isRecent(untilMs)),
  }
}

/** Joins spans of a request that follow each other without a gap. */
function joined(spans: readonly ActivitySpan[]): ActivitySpan[] {
  const all: ActivitySpan[] = []
  const last = new Map<string, number>()
  for (const span of spans) {
    const at = last.get(span.id)
    const before = at === undefined ? undefined : all[at]
    const goesOn = before?.kind === span.kind && before.slot === span.slot
    if (at !== undefined && before !== undefined && goesOn && span.atMs - before.untilMs < 1) {
      all[at] = { ...before, untilMs: span.untilMs, tokens: before.tokens + span.tokens }
    } else {
      last.set(span.id, all.length)
      all.push(span)
    }
  }
  return all
}

/** The 50th, 90th and 99th percentile. */
export type Percentiles = Readonly<Record<'p50' | 'p90' | 'p99', number>>

/** Percentiles of values; undefined for no values. */
export const percentilesOf = (values: readonly number[]): Percentiles | undefined =>
  percentilesOfCounts(values.map((value) => [value, 1]))

/** Percentiles of TTFT. */
export const ttftPercentiles = (frames: LiveState['frames']): Percentiles | undefined =>
  percentilesOf(frames.flatMap(({ firstTokensMs }) => firstTokensMs))

/** Percentiles of ITL from its buckets: within 15 % of the true values. */
export function itlPercentiles(frames: readonly Pick<ActivityFrame, 'itl'>[]) {
  const counts = frames.flatMap(({ itl }) => itl)
  return percentilesOfCounts(counts.map(([exponent, count]) => [itlBase ** exponent, count]))
}

/** Percentiles of values with their counts. */
function percentilesOfCounts(
  counts: readonly (readonly [value: number, count: number])[],
): Percentiles | undefined {
  const sorted = counts.toSorted(([a], [b]) => a - b)
  const total = sum(counts, ([, count]) => count)
  if (total === 0) return undefined
  const at = (share: number): number => {
    let seen = 0
    return sorted.find(([, count]) => (seen += count) > share * total)?.[0] ?? 0
  }
  return { p50: at(0.5), p90: at(0.9), p99: at(0.99) }
}

/** The sum of the counts of each key. */
function sumByKey(counts: readonly (readonly [key: string, count: number])[]): Map<string, number> {
  const sums = new Map<string, number>()
  for (const [key, count] of counts) sums.set(key, (sums.get(key) ?? 0) + count)
  return sums
}

/** The sum of a figure of each. */
export const sum = <T>(all: readonly T[], of: (one: T) => number): number =>
  all.reduce((total, one) => total + of(one), 0)

const endedIn = (frames: LiveState['frames']) => frames.flatMap(({ ended }) => ended)

/** Requests and tokens of the frames; `stepTokens` and `stepMs` are means of a step. */
export function figuresOf(frames: LiveState['frames'], now: number) {
  const ended = endedIn(frames)
  const steps = sum(frames, ({ steps }) => steps.count) || 1
  const decoded = sum(frames, ({ steps }) => steps.decodeTokens)
  const prefilled = sum(frames, ({ steps }) => steps.prefillTokens)
  const seconds = Math.max(1, now - (frames[0]?.atMs ?? now)) / 1000
  return {
    requests: ended.length,
    tokensPerSecond: decoded / seconds,
    stepTokens: (decoded + prefilled) / steps,
    stepMs: sum(frames, ({ steps }) => steps.ms) / steps,
    cachedShare: cachedShareOf(ended),
  }
}

/** The share of the requests' prompt tokens that came from the cache; undefined without a prompt. */
function cachedShareOf(ended: LiveState['frames'][number]['ended']): number | undefined {
  const prompts = sum(ended, ({ promptTokens }) => promptTokens)
  return prompts === 0 ? undefined : sum(ended, ({ cachedTokens }) => cachedTokens) / prompts
}

/** Cached tokens of requests that ended, by their source: `slot`, `copy`, `ram`, `disk` or `checkpoint`. */
export function cachedFrom(frames: LiveState['frames']): Map<string, number> {
  const hits = endedIn(frames).filter(({ cachedTokens }) => cachedTokens > 0)
  return sumByKey(hits.map((hit) => [hit.cache?.from ?? 'slot', hit.cachedTokens]))
}

/** The tenants' shares of the computed tokens, the largest first, and what the cache had of their prompts. */
export function tenantsOf(frames: LiveState['frames']) {
  const computed = [...sumByKey(frames.flatMap(({ tenants }) => Object.entries(tenants)))]
  const ended = endedIn(frames)
  const total = sum(computed, ([, tokens]) => tokens)
  const tenants = computed.map(([tenant, tokens]) => {
    const own = ended.filter((one) => one.tenant === tenant)
    return { tenant, share: tokens / total, cachedShare: cachedShareOf(own) }
  })
  return tenants.sort((a, b) => b.share - a.share)
}

/** Computed tokens in each second of the last minute, the oldest first. */
export function tokensBySecond(frames: LiveState['frames'], now: number) {
  const seconds = figuresMs / 1000
  const prompts = Array.from({ length: seconds }, () => 0)
  const answers = [...prompts]
  for (const { untilMs, steps } of frames) {
    const at = seconds - 1 - Math.floor((now - untilMs) / 1000)
    if (at < 0 || at >= seconds) continue
    prompts[at] = (prompts[at] ?? 0) + steps.prefillTokens
    answers[at] = (answers[at] ?? 0) + steps.decodeTokens
  }
  return { prompts, answers }
}
