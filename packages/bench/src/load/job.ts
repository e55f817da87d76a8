import { defined } from '@cllm/core'
import { randomSource } from '../statistics/random-source.js'
import { promptText } from '../workload/prompt-text.js'
import type { WorkItem } from '../workload/work-item.js'
import type { LoadOptions, TenantShare } from './load-options.js'

/** A request that is ready to be sent. */
export interface Job {
  readonly item: WorkItem
  readonly prompt: string
  /** Sets its prompts apart from those of other runs, and of the same item before. */
  readonly salt: string
  readonly tenant: string
  /** The tools that it offers, now and in further turns. */
  readonly tools?: readonly string[]
  readonly cancelAfter?: number
  readonly slowReadMs: number
}

/** The job at an index: a function of the load's seed and the run's salt. */
export function makeJob(
  index: number,
  load: LoadOptions,
  run: { readonly salt: string; readonly firstItem: number },
): Job {
  const { seed, cancelRate = 0, slowReaders = 0, slowReadMs = 0, tenants = [] } = load
  const item = load.dataset.item(run.firstItem + index)
  const lap = lapOf(index, load)
  const salt = lap === 0 ? run.salt : `${run.salt}/lap ${lap}`
  const random = randomSource(seed, 'job', index)
  const tenant = pickTenant(tenants, random())
  const isCancelled = random() < cancelRate
  const cancelAfter = Math.max(1, Math.floor(random() * item.outputTokens))
  return {
    item,
    prompt: promptText(item, seed, salt),
    salt,
    tenant,
    // A plain chat beside programs has no tools.
    ...(item.calls !== undefined && defined({ tools: load.dataset.tools })),
    ...(isCancelled ? { cancelAfter } : {}),
    slowReadMs: random() < slowReaders ? slowReadMs : 0,
  }
}

/** How often the dataset has begun anew before a run's job at this index. */
export const lapOf = (index: number, { dataset }: Pick<LoadOptions, 'dataset'>): number =>
  Math.floor(index / (dataset.size ?? Infinity))

/** The tenant at a place from 0 to 1, by weight. */
export function pickTenant(tenants: readonly TenantShare[], share: number): string {
  let left = share * tenants.reduce((sum, { weight }) => sum + weight, 0)
  return tenants.find(({ weight }) => (left -= weight) < 0)?.name ?? tenants.at(-1)?.name ?? ''
}
