import type { SequenceView } from '@cllm/core'
import { z } from 'zod'

/** The schema of an option above 0. */
export const positive = z.number().positive()

/** The schema of an option of at least 0. */
export const notNegative = z.number().min(0)

const limits = z.strictObject({
  /** TTFT: from arrival to the first token. */
  ttft: positive.optional(),
  /** ITL: between two tokens. */
  itl: positive.optional(),
})

/** The latency that requests are promised, in milliseconds. */
export type ServiceLimits = Readonly<z.infer<typeof limits>>

/** The option `slo`: limits of all requests, and those of a tenant or from a priority on. */
export const sloOption = {
  slo: limits
    .extend({
      tenants: z.record(z.string(), limits).optional(),
      priorities: z
        .record(z.string().regex(/^-?\d+$/, 'expected a whole number'), limits)
        .optional(),
    })
    .default({})
    .describe(
      'Latency limits in milliseconds: `ttft` to the first token, `itl` between two; `tenants` has limits by tenant, `priorities` by priority (and above).',
    ),
}

type Slo = z.infer<typeof sloOption.slo>

/** Makes a function that returns the limits of a request: its tenant's override those of its priority. */
export function limitsOf(slo: Slo): (request: SequenceView) => ServiceLimits {
  const { tenants = {}, priorities = {}, ...all } = slo
  const steps = Object.entries(priorities)
    .map(([priority, own]) => ({ from: Number(priority), own }))
    .sort((one, other) => one.from - other.from)
  const ofTenant = new Map(Object.entries(tenants))
  return ({ tenant, priority }) => {
    let found: ServiceLimits = all
    for (const { from, own } of steps) if (priority >= from) found = { ...found, ...own }
    return { ...found, ...ofTenant.get(tenant) }
  }
}
