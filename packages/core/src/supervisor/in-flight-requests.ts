import type { Clock } from '../contracts/clock.js'
import type { AddressedEvent } from '../contracts/engine/engine-client.js'
import type { GenerateRequest } from '../contracts/engine/generate-request.js'
import type { Submission } from '../remote/channel.js'
import { InFlightRequest, type Phase } from './in-flight-request.js'

/**
 * Requests in flight by arrival, with all that another engine needs to continue them: prompt, seed and
 * tokens.
 *
 * When an engine crashes, the requests without a sampled token (being checked, tokenized, compiled or
 * computed for the first time) are suspects; after a second crash, so are the requests in its batch.
 * Suspects run one at a time and before all others, which separates the request that crashes the
 * engine from the requests that only ran beside it.
 */
export class InFlightRequests {
  readonly #requests = new Map<string, InFlightRequest>()
  readonly #counts: Record<Phase, number> = {
    held: 0,
    checking: 0,
    waiting: 0,
    preparing: 0,
    running: 0,
  }
  #suspects = 0
  #alone: InFlightRequest | undefined

  constructor(private readonly clock: Clock) {}

  get size(): number {
    return this.#requests.size
  }

  /** Requests that the engine has. */
  get submitted(): number {
    return this.#requests.size - this.#counts.held
  }

  /** Whether there are requests that the engine does not have. */
  get isHolding(): boolean {
    return this.#counts.held > 0
  }

  /** Whether the engine works on a request in a way that takes no forward pass. */
  get isPreparing(): boolean {
    return this.#counts.checking + this.#counts.preparing > 0
  }

  /** Whether a request is to be alone on the engine, or is. */
  get hasSuspects(): boolean {
    return this.#suspects > 0
  }

  get(id: string): InFlightRequest | undefined {
    return this.#requests.get(id)
  }

  add(id: string, request: GenerateRequest): InFlightRequest {
    const entry = new InFlightRequest(id, request, this.clock.now())
    this.#requests.set(id, entry)
    this.#counts[entry.phase]++
    return entry
  }

  remove(entry: InFlightRequest): void {
    if (!this.#requests.delete(entry.id)) return
    this.#counts[entry.phase]--
    if (entry.isSuspect) this.#suspects--
    if (this.#alone === entry) this.#alone = undefined
  }

  /** Records events from the engine; returns the events that the client does not have yet. */
  onEvents(events: readonly AddressedEvent[]): readonly AddressedEvent[] {
    const now = this.clock.now()
    const fresh: AddressedEvent[] = []
    for (const addressed of events) {
      const { id, event } = addressed
      const entry = this.#requests.get(id)
      if (event.type === 'start' && entry !== undefined) {
        this.#move(entry, 'waiting')
        if (entry.isAccepted) continue
        entry.isAccepted = true
      } else if (event.type === 'token') {
        entry?.onToken(event.token, now)
        if (entry !== undefined) this.#clear(entry)
      } else if (event.type !== 'progress' && entry !== undefined) this.remove(entry)
      fresh.push(addressed)
    }
    return fresh
  }

  /** The engine starts to prepare a request (its sampler), or to compute its steps. */
  onPhase(id: string, phase: 'preparing' | 'running'): void {
    const entry = this.#requests.get(id)
    if (entry !== undefined) this.#move(entry, phase)
  }

  /** Takes the requests to submit to the engine now, in order. */
  *take(): Iterable<Submission> {
    if (this.#counts.held === 0 || this.#alone !== undefined) return
    const now = this.clock.now()
    for (const entry of this.#requests.values()) {
      if (entry.phase !== 'held' || (this.#suspects > 0 && !entry.isSuspect)) continue
      const isAlone = this.#suspects > 0
      if (isAlone) this.#alone = entry
      this.#move(entry, 'checking')
      yield entry.message(now)
      if (isAlone) return
    }
  }

  /** The engine exited. Removes and returns the request that crashed it, if it ran alone. */
  onExit(): InFlightRequest | undefined {
    const alone = this.#alone
    this.#alone = undefined
    const isGuilty = alone !== undefined && (!alone.isProven || alone.deaths > 1)
    if (isGuilty) this.remove(alone)
    const entries = [...this.#requests.values()]
    const submitted = entries.filter(({ phase }) => phase !== 'held')
    const touched = submitted.filter(({ phase }) => phase !== 'waiting')
    // The engine's last message may be lost: then any of its requests may have crashed it.
    const possible = touched.length > 0 ? touched : submitted
    const unproven = possible.filter(({ isProven }) => !isProven)
    for (const entry of possible) entry.deaths++
    for (const entry of unproven) entry.isSuspect = true
    for (const entry of possible) if (entry.deaths > 1) entry.isSuspect = true
    for (const entry of submitted) {
      entry.isProven = false
      this.#move(entry, 'held')
    }
    this.#suspects = entries.filter(({ isSuspect }) => isSuspect).length
    return isGuilty ? alone : undefined
  }

  /** Requests that no engine has. */
  held(): InFlightRequest[] {
    return this.all().filter(({ phase }) => phase === 'held')
  }

  all(): InFlightRequest[] {
    return [...this.#requests.values()]
  }

  /** After one crash, the first token shows that it was another request's; after two it stays alone. */
  #clear(entry: InFlightRequest): void {
    if (!entry.isSuspect || entry.deaths > 1) return
    entry.isSuspect = false
    this.#suspects--
    if (this.#alone === entry) this.#alone = undefined
  }

  #move(entry: InFlightRequest, phase: Phase): void {
    this.#counts[entry.phase]--
    entry.phase = phase
    this.#counts[phase]++
  }
}
