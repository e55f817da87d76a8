import type { Clock } from '../contracts/clock.js'
import type { AddressedEvent, GenerateRequest } from '../contracts/engine-client.js'
import type { TokenId } from '../contracts/tokenizer.js'
import type { ToEngine } from './channel.js'

/** Deaths after which a request is computed alone. */
const mostDeaths = 2

/** What is known of a request that is under way. */
export class LedgerEntry {
  /** Those whose events have come. */
  readonly tokens: TokenId[] = []
  isAccepted = false
  /** Whether the engine that runs has it. */
  isSubmitted = false
  /** Whether the engine checks its prompt or computes it. */
  isTouched = false
  /** Whether an engine had it that died, or it had to wait for one. */
  isKept = false
  /** Engines that died while they touched it. */
  deaths = 0
  #firstTokenAt: number | undefined

  constructor(
    readonly id: string,
    readonly request: GenerateRequest,
    readonly arrival: number,
  ) {}

  drew(token: TokenId, now: number): void {
    this.tokens.push(token)
    this.#firstTokenAt ??= now
  }

  /** What an engine is told; one that was with an engine before is taken up. */
  message(now: number): ToEngine {
    const { id, request, arrival, tokens } = this
    const first = this.#firstTokenAt
    if (!this.isKept) return { type: 'submit', id, request }
    const continued = {
      tokens,
      elapsedMs: now - arrival,
      ...(first === undefined ? {} : { firstTokenMs: first - arrival }),
    }
    return { type: 'submit', id, request: { ...request, continued } }
  }
}

/**
 * The requests under way by arrival, with all that another engine needs to take them up: their prompts,
 * seeds and tokens.
 *
 * A request that {@link mostDeaths | two} engines died of, perhaps, is under suspicion: such ones are
 * computed one at a time and before all others, so that who kills the engine is told from who only ran
 * beside it.
 */
export class RequestLedger {
  readonly #entries = new Map<string, LedgerEntry>()
  /** Requests that the engine does not have yet. */
  #held = 0
  #suspects = 0
  #alone: LedgerEntry | undefined

  constructor(private readonly clock: Clock) {}

  get size(): number {
    return this.#entries.size
  }

  /** Requests that the engine has. */
  get submitted(): number {
    return this.#entries.size - this.#held
  }

  /** Whether there are requests that the engine does not have. */
  get isHolding(): boolean {
    return this.#held > 0
  }

  get(id: string): LedgerEntry | undefined {
    return this.#entries.get(id)
  }

  add(id: string, request: GenerateRequest): LedgerEntry {
    const entry = new LedgerEntry(id, request, this.clock.now())
    this.#entries.set(id, entry)
    this.#held++
    return entry
  }

  remove(entry: LedgerEntry): void {
    if (!this.#entries.delete(entry.id)) return
    if (!entry.isSubmitted) this.#held--
    if (entry.deaths >= mostDeaths) this.#suspects--
    if (this.#alone === entry) this.#alone = undefined
  }

  /** Takes down what the engine said; returns what the client has not heard yet. */
  heard(events: readonly AddressedEvent[]): readonly AddressedEvent[] {
    const now = this.clock.now()
    const fresh: AddressedEvent[] = []
    for (const addressed of events) {
      const { id, event } = addressed
      const entry = this.#entries.get(id)
      if (event.type === 'start' && entry !== undefined) {
        // Accepted: it waits, untouched until the engine names it.
        entry.isTouched = false
        if (entry.isAccepted) continue
        entry.isAccepted = true
      } else if (event.type === 'token') entry?.drew(event.token, now)
      else if (entry !== undefined) this.remove(entry)
      fresh.push(addressed)
    }
    return fresh
  }

  /** The engine is about to compute these for the first time. */
  admitted(ids: readonly string[]): void {
    for (const id of ids) {
      const entry = this.#entries.get(id)
      if (entry !== undefined) entry.isTouched = true
    }
  }

  /** Takes the requests that the engine is to get now, in their order. */
  *take(): Iterable<ToEngine> {
    if (this.#held === 0 || this.#alone !== undefined) return
    const now = this.clock.now()
    for (const entry of this.#entries.values()) {
      if (entry.isSubmitted || (this.#suspects > 0 && entry.deaths < mostDeaths)) continue
      entry.isSubmitted = entry.isTouched = true
      this.#held--
      const isAlone = this.#suspects > 0
      if (isAlone) this.#alone = entry
      yield entry.message(now)
      if (isAlone) return
    }
  }

  /** The engine is dead. Returns the request that killed it, if it was alone; it is let go. */
  died(): LedgerEntry | undefined {
    const culprit = this.#alone
    if (culprit !== undefined) this.remove(culprit)
    const entries = [...this.#entries.values()]
    // What the engine said last may be lost: any of those that it had may be the one then.
    const isKnown = entries.some(({ isTouched }) => isTouched)
    for (const entry of entries) {
      const isTouched = isKnown ? entry.isTouched : entry.isSubmitted
      if (isTouched && ++entry.deaths === mostDeaths) this.#suspects++
      entry.isSubmitted = entry.isTouched = false
      entry.isKept = true
    }
    this.#held = this.#entries.size
    return culprit
  }

  /** Those that no engine has. */
  held(): LedgerEntry[] {
    return [...this.#entries.values()].filter(({ isSubmitted }) => !isSubmitted)
  }
}
