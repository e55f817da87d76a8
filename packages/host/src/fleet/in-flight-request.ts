import type { GenerateRequest, Random, RequestEvent, TokenId } from '@cllm/core'
import { CllmError } from '@cllm/core'
import type { Waits } from './waiting.js'

/**
 * A request in flight, with all that any engine needs to continue it: its prompt, its seed and the tokens that
 * its client has. The next engine draws what the last one would have drawn.
 */
export class InFlightRequest implements Waits {
  /** Tokens received so far. */
  readonly tokens: TokenId[]
  /** Whether an engine has queued it. */
  isAccepted = false
  /** The cancellation reason; the engine may not have received the cancel. */
  cancelReason: string | undefined
  /** Whether its current engine has sampled a token for it: if so, one crash does not make it a suspect. */
  isProven = false
  /** Number of engines or workers that it lost. */
  deaths = 0
  /** When it arrived, in the clock's milliseconds, moved later by {@link postpone}. */
  arrival: number
  #firstTokenAt: number | undefined

  constructor(
    readonly id: string,
    readonly request: GenerateRequest,
    now: number,
  ) {
    const { tokens = [], elapsedMs, firstTokenMs } = request.continued ?? {}
    this.tokens = [...tokens]
    this.arrival = now - (elapsedMs ?? request.arrivedMsAgo ?? 0)
    // Rounding must not put the first token into the future.
    if (firstTokenMs !== undefined) this.#firstTokenAt = Math.min(now, this.arrival + firstTokenMs)
  }

  get hasBegun(): boolean {
    return this.tokens.length > 0
  }

  get expiresAt(): number {
    return this.arrival + (this.request.timeoutMs ?? Infinity)
  }

  /** Records an event of its engine; false: its client has that one already. */
  take(event: RequestEvent, now: number): boolean {
    if (event.type === 'token') {
      this.tokens.push(event.token)
      this.isProven = true
      this.#firstTokenAt ??= now
    } else if (event.type === 'start') {
      const isFirst = !this.isAccepted
      this.isAccepted = true
      return isFirst
    }
    return true
  }

  /** Notes for how long no engine had the request: that time counts for none of its limits. */
  postpone(ms: number): void {
    this.arrival += ms
    if (this.#firstTokenAt !== undefined) this.#firstTokenAt += ms
  }

  /** The request for the next engine, to be continued if an engine had accepted it. */
  continuedAt(now: number): GenerateRequest {
    const { request, arrival, tokens } = this
    const elapsedMs = now - arrival
    if (!this.isAccepted) {
      if (elapsedMs <= 0) return request
      const continued = request.continued && { ...request.continued, elapsedMs }
      return { ...request, arrivedMsAgo: elapsedMs, ...(continued && { continued }) }
    }
    const firstAt = this.#firstTokenAt
    const first = firstAt === undefined ? {} : { firstTokenMs: firstAt - arrival }
    return { ...request, continued: { tokens: [...tokens], elapsedMs, ...first } }
  }
}

/** The request with a fixed seed, as each engine would choose another one. */
export function withSeed(request: GenerateRequest, random: Random): GenerateRequest {
  const { sampling } = request
  return { ...request, sampling: { ...sampling, seed: sampling?.seed ?? random.uint32() } }
}

/** The failure of a request whose time limit ended before an engine or a worker was available. */
export function waitedTooLong(isFor: 'an engine' | 'a worker'): CllmError {
  const message = `The request did not end within its time limit, for lack of ${isFor}`
  return new CllmError('timeout', message)
}

/** The failure of a request whose id belongs to another one in flight. */
export const duplicate = (id: string): CllmError =>
  new CllmError('duplicate_request', `A request with the id "${id}" is under way`)
