import { distributionOf, type Distribution } from '../statistics/distribution.js'
import { generatedTokens, ttftOf, type RunRecord } from './run-record.js'

/** The service that one tenant received. */
export interface TenantSummary {
  readonly tenant: string
  readonly requests: number
  readonly failed: number
  readonly generatedTokens: number
  readonly ttftMs?: Distribution
}

/** The tenants of a run, by name. */
export function summarizeTenants(records: readonly RunRecord[]): TenantSummary[] {
  return [...byTenant(records)].map(([tenant, own]) => {
    const ttftMs = distributionOf(own.flatMap((record) => ttftOf(record) ?? []))
    return {
      tenant,
      requests: own.length,
      failed: own.filter(({ outcome }) => outcome === 'failed').length,
      generatedTokens: own.reduce((sum, record) => sum + generatedTokens(record), 0),
      ...(ttftMs === undefined ? {} : { ttftMs }),
    }
  })
}

/**
 * Jain's index (Jain, Chiu, Hawe 1984) of the chunks per tenant, over the time in which every
 * tenant had a running request: 1 for equal shares, 1/n when one tenant received everything.
 * Undefined for fewer than two tenants.
 */
export function jainIndex(records: readonly RunRecord[]): number | undefined {
  const arrivals = [...byTenant(records).values()].map((own) =>
    own.flatMap(({ arrivalsMs }) => arrivalsMs),
  )
  if (arrivals.length < 2) return undefined
  const end = Math.min(...arrivals.map((times) => times.reduce((a, b) => Math.max(a, b), 0)))
  const served = arrivals.map((times) => times.filter((time) => time <= end).length)
  const total = served.reduce((sum, count) => sum + count, 0)
  const squares = served.reduce((sum, count) => sum + count * count, 0)
  return squares === 0 ? undefined : (total * total) / (served.length * squares)
}

function byTenant(records: readonly RunRecord[]): Map<string, RunRecord[]> {
  const tenants = new Map<string, RunRecord[]>()
  for (const record of records) {
    const own = tenants.get(record.tenant)
    if (own === undefined) tenants.set(record.tenant, [record])
    else own.push(record)
  }
  return new Map([...tenants].sort(([a], [b]) => (a < b ? -1 : 1)))
}
