/** A request that needs a worker, as a router sees it. */
export interface RoutedRequest {
  readonly id: string
  /** Whose it is; empty where requests have no tenants. */
  readonly tenant: string
  /** The conversation that it belongs to, if its client names one. */
  readonly session: string | undefined
  /** Higher is more urgent. */
  readonly priority: number
  /** Tokens of its prompt; estimated where the front has only the text. */
  readonly promptTokens: number
  /** Tokens that its answer may have. */
  readonly maxTokens: number
  /**
   * A hash for each whole block of its prompt and all that comes before it: two prompts with the same
   * hash at a place are the same up to there. What must not be shared, such as between tenants, has
   * other hashes.
   */
  readonly blocks: readonly number[]
  /**
   * Where each of its images and sounds ends, in tokens of its prompt, rising: a worker that holds the prompt up to
   * there has probably kept what it made of it, and the others are encoded before the prompt is computed.
   */
  readonly files: readonly number[]
  /** How often it lost its worker; 0 for a request that has none yet. */
  readonly moves: number
}

/**
 * A worker that can take requests, as one front knows it for one request: what the worker reported
 * last, and what this front has placed on it since. Times are milliseconds.
 */
export interface WorkerView {
  readonly id: string
  /** Time since the worker said this. */
  readonly ageMs: number
  /** Fronts that place requests on the workers, this one included. */
  readonly fronts: number
  /** Requests that the other fronts have probably placed on the workers and no report shows yet. */
  readonly unseen: number
  /** Sequences that it holds in memory. */
  readonly slots: number
  /** Requests on it that have not ended. */
  readonly open: number
  /** Prompt tokens of those requests, whether they are computed or not. */
  readonly openTokens: number
  /** Prompt tokens of those requests that it has yet to compute. */
  readonly backlogTokens: number
  /** Images and sounds of those requests that it has yet to encode, one at a time and beside its steps. */
  readonly backlogFiles: number
  /** Time that a prompt token takes it, among all else that it does. */
  readonly tokenMs: number
  /** Time that a token of an answer takes it. */
  readonly stepMs: number
  /** Predicted time until it begins to compute this request's prompt: its files are encoded before. */
  readonly waitMs: number
  /** Leading tokens of this request's prompt that it probably holds. */
  readonly cachedTokens: number
  /** Predicted time to this request's first token: the wait and the prompt that it does not hold. */
  readonly firstTokenMs: number
  /** When a request last came to it, by the front's clock and as far as it knows; -Infinity: never. */
  readonly placedAt: number
}

/** Where a request goes. */
export type Placement =
  /** To this worker, by its id. */
  | { readonly worker: string }
  /** Nowhere yet: it is asked about again after this many milliseconds, 5 at least. */
  | { readonly holdMs: number }
  /** Nowhere: the client is told why, and may come again after `retryMs`. */
  | { readonly refuse: string; readonly retryMs?: number }

/**
 * Chooses the worker of each request. A front has one router, and a cluster has one in each of its
 * fronts: they see the same workers, each a little late, and not each other.
 *
 * Placing is synchronous and takes microseconds. It must follow from its arguments and the calls before, with no
 * clock, chance or other input of its own, so that the same code can be simulated: two routers that are
 * asked the same give the same answers.
 */
export interface RouterPolicy {
  /**
   * Places a request.
   *
   * @param workers those that may take it, in the order of their ids; at least one
   * @param now the front's clock in milliseconds
   */
  place(request: RoutedRequest, workers: readonly WorkerView[], now: number): Placement
}
