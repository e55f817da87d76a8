import type { Submission } from '../remote/channel.js'
import type { GenerateRequest } from '../contracts/engine/generate-request.js'
import type { TokenId } from '../contracts/model/tokenizer.js'

/**
 * What the engine does with a request: no engine has it (`held`), its fields are checked and its prompt
 * is tokenized (`checking`), it is in the queue (`waiting`), its sampler is made (`preparing`), or its
 * steps are computed (`running`).
 */
export type Phase = 'held' | 'checking' | 'waiting' | 'preparing' | 'running'

/** A request in flight. */
export class InFlightRequest {
  phase: Phase = 'held'
  /** Tokens received so far. */
  readonly tokens: TokenId[]
  /** Whether an engine has queued it. */
  isAccepted = false
  /** The cancellation reason; the engine may not have received the cancel. */
  cancelReason: string | undefined
  /** Whether its current engine has sampled a token for it: after one crash it is then no suspect. */
  isProven = false
  /** Number of engines that crashed while working on it. */
  deaths = 0
  /** Whether it must run alone on the next engine. */
  isSuspect = false
  /** When it first arrived. */
  readonly arrival: number
  #firstTokenAt: number | undefined

  constructor(
    readonly id: string,
    readonly request: GenerateRequest,
    now: number,
  ) {
    this.tokens = [...(request.continued?.tokens ?? [])]
    this.arrival = now - (request.continued?.elapsedMs ?? request.arrivedMsAgo ?? 0)
  }

  /** Its engine sampled a token. */
  onToken(token: TokenId, now: number): void {
    this.tokens.push(token)
    this.isProven = true
    this.#firstTokenAt ??= now
  }

  /** The message that submits it. A request that another engine had accepted is continued. */
  message(now: number): Submission {
    const { id, request, arrival, tokens } = this
    const elapsedMs = now - arrival
    if (this.isAccepted) {
      const firstAt = this.#firstTokenAt
      const first = firstAt === undefined ? {} : { firstTokenMs: firstAt - arrival }
      return {
        type: 'submit',
        id,
        request: { ...request, continued: { tokens, elapsedMs, ...first } },
      }
    }
    const late = elapsedMs > 0 ? { arrivedMsAgo: elapsedMs } : {}
    return { type: 'submit', id, request: { ...request, ...late } }
  }
}
