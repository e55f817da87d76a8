/** What a worker says of itself to the fronts, as JSON. Times are milliseconds. */
export interface WorkerReport {
  /** Sequences that it holds in memory. */
  readonly slots: number
  /** Requests that have not ended. */
  readonly open: number
  /** Prompt tokens of those requests. */
  readonly openTokens: number
  /** Prompt tokens of those requests that it has yet to compute. */
  readonly backlogTokens: number
  /** The same, each with the tokens before it, which it attends to. */
  readonly backlogPairs: number
  /** Time since a request came; undefined before the first. */
  readonly idleMs?: number
  /** Time of a prompt token on the idle worker, measured; undefined before the first. */
  readonly tokenMs?: number
  /** What each other request on it adds to that, measured with it. */
  readonly besideMs?: number
  /** What each token before it adds to that, measured with it. */
  readonly pairMs?: number
  /** Time of an answer's token, measured; undefined before the first. */
  readonly stepMs?: number
  /** Time for which a request keeps a slot, measured; undefined before the first. */
  readonly serviceMs?: number
  /** The prompts in its slots, as hashes of their blocks, the last used one last. */
  readonly chains: readonly (readonly number[])[]
  /** The number of the last placement that it has seen of each front. */
  readonly seen: Readonly<Record<string, number>>
}
