import { type Clock, CllmError, type Logger } from '@cllm/core'
import {
  type EmbeddedInput,
  goesOn,
  type ObservedRequest,
  type RequestObserver,
  type RequestWatch,
  type KoaProtocol,
} from '../../routes/koa-context.js'
import type { ApiKey } from '../../security/api-key.js'
import { requestScope } from '../../security/authenticate.js'
import { UsageJournal, usageCounts, usageGroups, UsageSums } from './usage-journal.js'
import type { UsageGroup, UsageSum } from './usage-journal.js'
import { z } from 'zod'
import { snakeCase } from '../../fields/fields.js'
import { expectedField } from '../../request/refusals.js'
import { Reply, bindRoutes, get } from '../../routes/route.js'
import type { Answer, QueryCallOf, Route } from '../../routes/route.js'
import { defineProtocol } from '../../routes/define-protocol.js'

/** The most tenants named by clients that are summed apart; all further ones are one sum. */
const mostTenants = 1000

/** Records the usage of each key, and refuses requests beyond a key's monthly quota. */
export class UsageLedger implements RequestObserver {
  /** The tenants that clients have named. */
  readonly #tenants = new Set<string>()
  /** Whether the folder's last use failed, which is logged once. */
  #isFailing = false

  constructor(
    private readonly journal: UsageJournal,
    private readonly clock: Clock,
    private readonly logger: Logger,
  ) {}

  /** @throws `rate_limited` when the key has used up its tokens of the month */
  onSubmit({ model, request }: ObservedRequest): RequestWatch {
    const key = requestScope.getStore()?.key
    // A request that continues another one was checked and counted when that one began.
    const isNew = request.continued === undefined
    // The monthly quota is the same for generations and embeddings.
    if (isNew) this.onEmbed()
    let [promptTokens, cachedTokens, generatedTokens] = [0, 0, 0]
    return {
      onEvent: (event) => {
        if (event.type === 'start' && isNew) promptTokens = event.promptTokens
        else if (event.type === 'token') generatedTokens++
        else if (event.type === 'end' && isNew) cachedTokens = event.usage.cachedTokens
      },
      onEnd: (_now, error) => {
        // A request that left before it began is noted when it is submitted again, as a new one.
        if (error === goesOn && isNew && promptTokens === 0) return
        const tenant = key?.tenant ?? this.#tenantOf(request)
        // The request that this one continues was recorded as unfinished.
        const unfinished = (error === undefined ? 0 : 1) - (isNew ? 0 : 1)
        const counts = { promptTokens, cachedTokens, generatedTokens }
        const requests = isNew ? 1 : 0
        this.#note(key, { tenant, model, requests, unfinished, ...counts })
      },
    }
  }

  /** @throws `rate_limited` when the key has used up its tokens of the month */
  onEmbed(): void {
    const { name = '', tokensPerMonth } = requestScope.getStore()?.key ?? {}
    if (tokensPerMonth === undefined) return
    const now = new Date(this.clock.wall())
    const month = dayOf(now.getTime()).slice(0, 7)
    try {
      if (this.journal.tokensOf(name, month) < tokensPerMonth) return
    } catch (error) {
      return this.#failed(error)
    }
    const message = `The key "${name}" has used up its ${tokensPerMonth} tokens of ${month} (UTC)`
    const retryAfterMs = Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + 1) - now.getTime()
    const details = { limit: tokensPerMonth, month, retryAfterMs }
    throw new CllmError('rate_limited', message, { details })
  }

  /** Counts each input as a request, like each prompt of a completion. */
  onEmbedded({ model, tokens: promptTokens, error }: EmbeddedInput): void {
    const key = requestScope.getStore()?.key
    const counts = { unfinished: error ? 1 : 0, promptTokens, cachedTokens: 0, generatedTokens: 0 }
    this.#note(key, { tenant: key?.tenant ?? null, model, requests: 1, ...counts })
  }

  #note({ name }: Partial<ApiKey> = {}, sum: Omit<UsageSum, 'day' | 'key'>): void {
    const day = dayOf(this.clock.wall())
    const written = (): void => {
      if (this.#isFailing) this.logger.info({}, 'usage is recorded again')
      this.#isFailing = false
    }
    void this.journal.add({ day, key: name ?? null, ...sum }).then(written, this.#failed)
  }

  /** The tenant on a server without keys, which the client has chosen. */
  #tenantOf({ tenant }: ObservedRequest['request']): string | null {
    if (tenant === undefined) return null
    if (this.#tenants.size < mostTenants) this.#tenants.add(tenant)
    return this.#tenants.has(tenant) ? tenant : null
  }

  /** Logs errors, as a full disk must not fail answers. */
  readonly #failed = (err: unknown): void => {
    const { folder } = this.journal
    if (!this.#isFailing) this.logger.error({ folder, err }, unrecorded)
    this.#isFailing = true
  }
}

const unrecorded =
  'usage cannot be recorded: it waits in memory for its folder, and counts until a restart'

/** The day of a time, in UTC. */
const dayOf = (now: number): string => new Date(now).toISOString().slice(0, 10)

const day = z.string().regex(/^\d{4}-\d\d-\d\d$/, 'expected a day such as 2026-11-22')

const querySchema = z.object({
  from: day.optional().describe('The first day (UTC); default: the first of this month.'),
  to: day.optional().describe('The last day; default: today.'),
  by: z
    .string()
    .default('day,key,model')
    .describe('What requests are grouped by: day, key, tenant, model.'),
  format: z.enum(['json', 'csv']).default('json'),
})

const routes: readonly Route<UsageJournal>[] = [
  get('/admin/usage', 'admin', 'Requests and tokens by day, key, tenant and model', show, {
    query: querySchema,
    answers: ['application/json', 'text/csv'],
  }),
]

function show(call: QueryCallOf<typeof querySchema>, journal: UsageJournal): Answer {
  const today = dayOf(call.clock.wall())
  const { from = `${today.slice(0, 7)}-01`, to = today, by: groups, format } = call.query
  const by = groups.split(',').map(groupOf)
  const sums = new UsageSums(by)
  const onProblem = (err: unknown) => call.logger.error({ err }, 'usage cannot be read')
  for (const sum of journal.days(from, to, onProblem)) sums.add(sum)
  const names = [...by, ...usageCounts]
  const rows = sums.all().map((sum) => names.map((name) => sum[name]))
  if (format === 'csv') {
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
  throw expectedField('by', `${usageGroups.join(', ')}, instead got "${name.slice(0, 64)}"`)
}

/** A cell of CSV. A name that a spreadsheet would take for a formula gets an apostrophe in front. */
function cell(value: string | number | null): string {
  if (typeof value !== 'string') return String(value ?? '')
  const safe = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value
  return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe
}

/**
 * Records requests and tokens by day, key, tenant and model in a folder, and shows them to admins at
 * `GET /admin/usage`. Enforces the `tokensPerMonth` of keys.
 */
export function usageProtocol({ folder }: { readonly folder: string }): KoaProtocol {
  const journal = new UsageJournal(folder)
  return {
    name: 'usage',
    routes: bindRoutes(routes, journal),
    observe: ({ clock, logger }) => new UsageLedger(journal, clock, logger),
    // What a full disk cannot take was logged.
    close: async () => await journal.flush().catch(() => {}),
  }
}

/** {@link usageProtocol} as a definition. */
export const usage = defineProtocol({
  name: 'usage',
  doc: 'Records the usage of each key, if a folder is set, and shows it at `/admin/usage`.',
  options: z.strictObject({
    folder: z
      .string()
      .min(1)
      .optional()
      .describe('Folder for usage records; unset: usage is not recorded.'),
  }),
  create: ({ folder }) => (folder === undefined ? { name: 'usage' } : usageProtocol({ folder })),
})
