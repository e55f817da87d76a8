import { z } from 'zod'
import { snakeCase } from '../../fields/fields.js'
import { expectedField } from '../../request/refusals.js'
import type { Answer, QueryCallOf, Route } from '../../routes/route.js'
import { bindRoutes, get, Reply } from '../../routes/route.js'
import { defineProtocol } from '../../routes/define-protocol.js'
import type { KoaProtocol } from '../../routes/koa-context.js'
import type { UsageGroup } from './usage-journal.js'
import { usageCounts, usageGroups, UsageJournal, UsageSums } from './usage-journal.js'
import { dayOf, UsageLedger } from './usage-ledger.js'

const day = z.string().regex(/^\d{4}-\d\d-\d\d$/, 'expected a day such as 2026-11-22')

const querySchema = z.object({
  from: day.optional().describe('The first day (UTC); default: the first of this month.'),
  to: day.optional().describe('The last day; default: today.'),
  by: z
    .string()
    .default('day,key,model')
    .describe('What sums are told apart by: day, key, tenant, model.'),
  format: z.enum(['json', 'csv']).default('json'),
})

const routes: readonly Route<UsageJournal>[] = [
  get('/admin/usage', 'admin', 'Requests and tokens by day, key, tenant and model', show, {
    query: querySchema,
    answers: ['application/json', 'text/csv'],
  }),
]

function show(call: QueryCallOf<typeof querySchema>, journal: UsageJournal): Answer {
  const { query } = call
  const today = dayOf(call.clock.now())
  const { from = `${today.slice(0, 7)}-01`, to = today } = query
  const by = query.by.split(',').map(groupOf)
  const sums = new UsageSums(by)
  for (const sum of journal.days(from, to)) sums.add(sum)
  const names = [...by, ...usageCounts]
  const rows = sums.all().map((sum) => names.map((name) => sum[name]))
  if (query.format === 'csv') {
    const lines = [names.map(snakeCase), ...rows].map((row) => `${row.map(cell).join(',')}\n`)
    return new Reply(lines.join(''), { type: 'text/csv' })
  }
  const usage = rows.map((row) =>
    Object.fromEntries(names.map((name, index) => [snakeCase(name), row[index]])),
  )
  return { from, to, usage }
}

function groupOf(name: string): UsageGroup {
  const group = usageGroups.find((known) => known === name.trim())
  if (group !== undefined) return group
  throw expectedField('by', `${usageGroups.join(', ')}, got ${name.slice(0, 64)}`)
}

/** A cell of CSV. What a spreadsheet would take for a formula is made a text. */
function cell(value: string | number | null): string {
  const text = value === null ? '' : String(value)
  const safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text
  return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe
}

/**
 * Notes requests and tokens by day, key, tenant and model in a folder, and shows them to admins at
 * `GET /admin/usage`. Holds keys to their `tokensPerMonth`.
 */
export function usageProtocol({ folder }: { readonly folder: string }): KoaProtocol {
  const journal = new UsageJournal(folder)
  return {
    name: 'usage',
    routes: bindRoutes(routes, journal),
    observe: ({ clock, logger }) => new UsageLedger(journal, clock, logger),
  }
}

const optionsSchema = z.strictObject({
  folder: z
    .string()
    .min(1)
    .optional()
    .describe('Where usage is kept; without one it is not noted.'),
})

/** {@link usageProtocol} by its name. */
export const usage = defineProtocol({
  name: 'usage',
  doc: 'Notes what each key uses, where a folder for it is set, and shows it at `/admin/usage`.',
  options: optionsSchema,
  create: ({ folder }) => (folder === undefined ? { name: 'usage' } : usageProtocol({ folder })),
})
