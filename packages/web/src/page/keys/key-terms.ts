/** What a key may do, as the server's `/admin/keys` has it; null: the server's limit, or none. */
export interface KeyTerms {
  readonly name: string
  readonly tenant: string
  readonly role: 'user' | 'metrics' | 'admin'
  readonly requests_per_minute: number | null
  readonly tokens_per_minute: number | null
  readonly tokens_per_month: number | null
}

/** The limits of a key, and what they are called. */
export const limits = [
  ['requests_per_minute', 'Requests a minute'],
  ['tokens_per_minute', 'Tokens a minute'],
  ['tokens_per_month', 'Tokens a month'],
] as const

/** The name of a limit. */
export type LimitName = (typeof limits)[number][0]

/** What holds for a key that has no limit of its own. */
export const withoutLimit = (limit: LimitName): string =>
  limit === 'tokens_per_month' ? 'no limit' : "the server's"
