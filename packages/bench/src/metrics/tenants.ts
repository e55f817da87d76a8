import { distributionOf, type Distribution } from '../statistics/distribution.js'
import { generatedTokens, ttftOf, type RunRecord } from './run-record.js'

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
      generatedTokens: own.reduce((sum, record) => sum + generatedTokens(record), 0),
      ...(ttftMs === undefined ? {} : { ttftMs }),
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
  const begin = Math.max(
    ...tenants.map((own) => own.reduce((least, { sentMs }) => Math.min(least, sentMs), Infinity)),
  )
  const end = Math.min(
    ...tenants.map((own) => own.reduce((most, { endMs }) => Math.max(most, endMs), 0)),
  )
  const isMeant = (time: number): boolean => begin <= time && time <= end
  const served = tenants.map((own) =>
    own.reduce((sum, { arrivalsMs }) => sum + arrivalsMs.filter(isMeant).length, 0),
  )
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
