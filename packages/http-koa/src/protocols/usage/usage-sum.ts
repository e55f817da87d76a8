/** What a key used of a model on a day. A journal's lines are sums, too: of one request. */
export interface UsageSum {
  /** In UTC, such as `2026-11-22`. */
  readonly day: string
  /** The name of the API key; null on servers without keys. */
  readonly key: string | null
  readonly tenant: string | null
  readonly model: string
  readonly requests: number
  /** Those of the requests that failed or whose client left. */
  readonly unfinished: number
  readonly promptTokens: number
  /** Those of the prompt's tokens that were found computed. */
  readonly cachedTokens: number
  readonly generatedTokens: number
}

/** By what sums are told apart. */
export type UsageGroup = 'day' | 'key' | 'tenant' | 'model'

/** What is summed. */
export const usageCounts = [
  'requests',
  'unfinished',
  'promptTokens',
  'cachedTokens',
  'generatedTokens',
] as const

/** Sums of sums. */
export class UsageSums {
  readonly #sums = new Map<string, UsageSum>()

  constructor(private readonly groups: readonly UsageGroup[] = ['day', 'key', 'tenant', 'model']) {}

  add(one: UsageSum): void {
    const id = JSON.stringify(this.groups.map((group) => one[group]))
    const before = this.#sums.get(id)
    const counts = usageCounts.map((name) => [name, one[name] + (before?.[name] ?? 0)])
    this.#sums.set(id, { ...(before ?? one), ...(Object.fromEntries(counts) as object) })
  }

  all(): readonly UsageSum[] {
    return [...this.#sums.values()]
  }
}
