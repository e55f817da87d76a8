import { defined } from '@cllm/core'
import { max, min, sum } from 'simple-statistics'
import { type Distribution, distributionOf, groupBy } from '../statistics/statistics.js'
import {
  e2eOf,
  gapsOf,
  generatedTokens,
  meetsSlo,
  type Outcome,
  type RunRecord,
  type Slo,
  tpotOf,
  ttftOf,
} from './run-record.js'

/** The figures of one run. Latencies cover successful requests; counts cover all requests. */
export interface Summary {
  readonly requests: {
    readonly total: number
    readonly ok: number
    readonly failed: number
    /** Cancelled by the client on purpose. */
    readonly cancelled: number
    /** Still running when the run was interrupted. */
    readonly interrupted: number
    /** Failures by kind. */
    readonly errors: Readonly<Record<string, number>>
  }
  /** Time from sending the first request to the end of the last one. */
  readonly durationMs: number
  /** Requests that succeeded, per second. */
  readonly requestsPerSecond: number
  /** Generated tokens per second, of all requests. */
  readonly outputTokensPerSecond: number
  /** Prompt and generated tokens per second, of requests that succeeded. */
  readonly totalTokensPerSecond: number
  readonly promptTokens: number
  readonly cachedTokens: number
  readonly generatedTokens: number
  readonly ttftMs?: Distribution
  readonly tpotMs?: Distribution
  readonly itlMs?: Distribution
  readonly e2eMs?: Distribution
  /** With an SLO: requests that met it, per second, and their share of all requests. */
  readonly goodput?: {
    readonly slo: Slo
    readonly requestsPerSecond: number
    readonly share: number
  }
  /** The original cLLM's score of the end-to-end latencies: 1 / (1 + deviation / mean). */
  readonly stability?: number
  /** Jain's index over tenants. */
  readonly jain?: number
  readonly tenants: readonly TenantSummary[]
  /** From the first request of a whole conversation of several to the end of its last one. */
  readonly programMs?: Distribution
  /** Where there are such: the end-to-end latency of the requests that are alone. */
  readonly aloneMs?: Distribution
  /** Actual minus intended send time. */
  readonly sendLagMs?: Distribution
}

/** Computes the figures of a run from its requests. */
export function summarize(records: readonly RunRecord[], slo: Slo = {}): Summary {
  const ok = records.filter(({ outcome }) => outcome === 'ok')
  const failed = records.filter(({ outcome }) => outcome === 'failed')
  const durationMs = durationOf(records)
  const perSecond = (count: number) => (durationMs > 0 ? (count * 1000) / durationMs : 0)
  const count = (outcome: Outcome) => records.filter((record) => record.outcome === outcome).length
  const byKind = groupBy(failed, ({ failure }) => failure?.kind ?? 'unknown')
  const generated = sum(records.map(generatedTokens))
  const okTokens = sum(ok.map((record) => promptTokensOf(record) + generatedTokens(record)))
  const e2eMs = distributionOf(quick(ok).map(e2eOf))
  const good = records.filter((record) => meetsSlo(record, slo)).length
  return {
    requests: {
      total: records.length,
      ok: ok.length,
      failed: failed.length,
      cancelled: count('cancelled'),
      interrupted: count('interrupted'),
      errors: Object.fromEntries([...byKind].map(([kind, own]) => [kind, own.length])),
    },
    durationMs,
    requestsPerSecond: perSecond(ok.length),
    outputTokensPerSecond: perSecond(generated),
    totalTokensPerSecond: perSecond(okTokens),
    promptTokens: sum(records.map(promptTokensOf)),
    cachedTokens: sum(records.map(({ usage }) => usage?.cachedTokens ?? 0)),
    generatedTokens: generated,
    ...defined({
      ttftMs: distributionOf(ok.flatMap((record) => ttftOf(record) ?? [])),
      tpotMs: distributionOf(quick(ok).flatMap((record) => tpotOf(record) ?? [])),
      itlMs: distributionOf(quick(ok).flatMap(gapsOf)),
      e2eMs,
      jain: jainIndex(records),
      sendLagMs: distributionOf(records.map((each) => each.sentMs - each.intendedMs)),
    }),
    ...(Object.keys(slo).length > 0 && {
      goodput: {
        slo,
        requestsPerSecond: perSecond(good),
        share: good / Math.max(1, records.length),
      },
    }),
    ...(e2eMs !== undefined && { stability: 1 / (1 + e2eMs.deviation / e2eMs.mean) }),
    tenants: summarizeTenants(records),
    ...summarizePrograms(records),
  }
}

/** Prompt tokens by the server's count, or else the intended number. */
const promptTokensOf = ({ usage, asked, outcome }: RunRecord): number =>
  usage?.promptTokens ?? (outcome === 'ok' ? asked.inputTokens : 0)

const durationOf = (records: readonly RunRecord[]): number =>
  records.length === 0 ? 0 : endOf(records) - beginOf(records)

const beginOf = (records: readonly RunRecord[]) => min(records.map(({ sentMs }) => sentMs))
const endOf = (records: readonly RunRecord[]) => max(records.map(({ endMs }) => endMs))

const quick = (records: readonly RunRecord[]) => records.filter(({ slowReader }) => !slowReader)

/** How long whole conversations took, pauses included, and what was asked beside them. */
function summarizePrograms(records: readonly RunRecord[]): Pick<Summary, 'programMs' | 'aloneMs'> {
  const programs = groupBy(quick(records), ({ program, index }) => program ?? index)
  const isWhole = (own: readonly RunRecord[]) =>
    own.every(({ outcome }) => outcome === 'ok') && own.at(-1)?.goesOn !== true
  const all = [...programs.values()].filter(isWhole)
  const several = all.filter(({ length }) => length > 1)
  if (several.length === 0) return {}
  const programMs = several.map((own) => durationOf(own))
  const aloneMs = all.flatMap((own) => (own.length === 1 ? own.map(e2eOf) : []))
  return defined({ programMs: distributionOf(programMs), aloneMs: distributionOf(aloneMs) })
}

/** The service that one tenant received. */
export interface TenantSummary {
  readonly tenant: string
  readonly requests: number
  readonly failed: number
  readonly generatedTokens: number
  /** Of the requests that succeeded. */
  readonly ttftMs?: Distribution
}

/** The tenants of a run, by name. */
export function summarizeTenants(records: readonly RunRecord[]): TenantSummary[] {
  return [...byTenant(records)].map(([tenant, own]) => {
    const ok = own.filter(({ outcome }) => outcome === 'ok')
    const ttftMs = distributionOf(ok.flatMap((record) => ttftOf(record) ?? []))
    return {
      tenant,
      requests: own.length,
      failed: own.filter(({ outcome }) => outcome === 'failed').length,
      generatedTokens: sum(own.map(generatedTokens)),
      ...defined({ ttftMs }),
    }
  })
}

/**
 * Jain's index (Jain, Chiu, Hawe 1984) of the chunks per tenant, over the time from the last tenant's first
 * request to the end of the first tenant's last one, answered or not: 1 for equal shares, 1/n when one
 * tenant received everything. Undefined for fewer than two tenants, and when none received anything then.
 */
export function jainIndex(records: readonly RunRecord[]): number | undefined {
  const tenants = [...byTenant(records).values()]
  if (tenants.length < 2) return undefined
  const begin = max(tenants.map(beginOf))
  const end = min(tenants.map(endOf))
  const isMeant = (time: number): boolean => begin <= time && time <= end
  const served = tenants.map((own) =>
    sum(own.map(({ arrivalsMs }) => arrivalsMs.filter(isMeant).length)),
  )
  const total = sum(served)
  const squares = sum(served.map((count) => count ** 2))
  return squares === 0 ? undefined : (total * total) / (served.length * squares)
}

const byTenant = (records: readonly RunRecord[]): Map<string, RunRecord[]> =>
  new Map([...groupBy(records, ({ tenant }) => tenant)].sort(([a], [b]) => (a < b ? -1 : 1)))
