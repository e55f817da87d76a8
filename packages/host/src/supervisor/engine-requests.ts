import { type Clock, type AddressedEvent, CllmError } from '@cllm/core'
import { InFlightRequest } from '../fleet/in-flight-request.js'
import { InFlightTable } from '../fleet/in-flight-table.js'
import type { Submission } from '../remote/channel.js'

/**
 * What the engine does with a request: no engine has it (`held`), its fields are checked and its prompt
 * is tokenized (`checking`), it is in the queue (`waiting`), its sampler is made (`preparing`), or its
 * steps are computed (`running`).
 */
export type Phase = 'held' | 'checking' | 'waiting' | 'preparing' | 'running'

/** A request of one engine, which may be replaced. */
export class EngineRequest extends InFlightRequest {
  phase: Phase = 'held'
  /** Whether it must run alone on the next engine. */
  isSuspect = false
}

const crashed = 'The engine crashed while running this request alone'

/**
 * The requests of one engine that is replaced when it crashes.
 *
 * When an engine crashes, the requests without a sampled token (being checked, tokenized, compiled or
 * computed for the first time) are suspects; after a second crash, so are the requests in its batch.
 * Suspects run one at a time and before all others, which separates the request that crashes the
 * engine from the requests that only ran beside it.
 */
export class EngineRequests extends InFlightTable<EngineRequest> {
  readonly #counts: Record<Phase, number> = {
    held: 0,
    checking: 0,
    waiting: 0,
    preparing: 0,
    running: 0,
  }
  #suspects = 0
  #alone: EngineRequest | undefined

  constructor(private readonly clock: Clock) {
    super()
  }

  /** Requests that the engine has. */
  get submitted(): number {
    return this.size - this.#counts.held
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

  override add(entry: EngineRequest): void {
    super.add(entry)
    this.#counts[entry.phase]++
  }

  override remove(entry: EngineRequest): boolean {
    if (!super.remove(entry)) return false
    this.#counts[entry.phase]--
    if (entry.isSuspect) this.#suspects--
    if (this.#alone === entry) this.#alone = undefined
    return true
  }

  /** Records events from the engine; returns the events that the client does not have yet. */
  onEvents(events: readonly AddressedEvent[]): readonly AddressedEvent[] {
    const now = this.clock.now()
    const fresh: AddressedEvent[] = []
    for (const addressed of events) {
      const { id, event } = addressed
      const entry = this.get(id)
      const isFresh = entry?.take(event, now) ?? true
      if (isFresh) fresh.push(addressed)
      if (entry === undefined) continue
      if (event.type === 'start') this.#move(entry, 'waiting')
      else if (event.type === 'token') this.#clear(entry)
      else if (event.type !== 'progress') this.remove(entry)
    }
    return fresh
  }

  /** The engine starts to prepare a request (its sampler), or to compute its steps. */
  onPhase(id: string, phase: 'preparing' | 'running'): void {
    const entry = this.get(id)
    if (entry !== undefined) this.#move(entry, phase)
  }

  /** Takes the requests to submit to the engine now, in order. */
  *take(): Iterable<Submission> {
    if (this.#counts.held === 0 || this.#alone !== undefined) return
    const now = this.clock.now()
    for (const entry of this) {
      if (entry.phase !== 'held' || (this.#suspects > 0 && !entry.isSuspect)) continue
      const isAlone = this.#suspects > 0
      if (isAlone) this.#alone = entry
      this.#move(entry, 'checking')
      yield { type: 'submit', id: entry.id, request: entry.continuedAt(now) }
      if (isAlone) return
    }
  }

  /**
   * The engine exited. Removes the request that crashed it, if it ran alone, and those whose clients have left;
   * returns their ids and errors.
   */
  onExit(why: string): [id: string, error: CllmError][] {
    const alone = this.#alone
    this.#alone = undefined
    const isGuilty = alone !== undefined && (!alone.isProven || alone.deaths > 1)
    if (isGuilty) this.remove(alone)
    const entries = this.all()
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
    const ended = entries.filter(({ cancelReason }) => cancelReason !== undefined)
    for (const entry of ended) this.remove(entry)
    if (isGuilty) ended.unshift(alone)
    return ended.map(({ id, cancelReason: reason }) => [
      id,
      reason === undefined
        ? new CllmError('engine_crashed', `${crashed}: ${why}`)
        : new CllmError('cancelled', reason),
    ])
  }

  /** The requests without an engine whose time limit has passed, and when the next one's does. */
  expired(timeoutMs = Infinity): {
    readonly late: readonly EngineRequest[]
    readonly next: number
  } {
    const limitOf = ({ arrival, request }: EngineRequest) =>
      arrival + (request.timeoutMs ?? timeoutMs)
    const now = this.clock.now()
    const held = this.held()
    const next = Math.min(...held.map(limitOf).filter((at) => at > now))
    return { late: held.filter((entry) => limitOf(entry) <= now), next }
  }

  /** Requests that no engine has. */
  held(): EngineRequest[] {
    return this.all().filter(({ phase }) => phase === 'held')
  }

  /** After one crash, the first token shows that it was another request's; after two it stays alone. */
  #clear(entry: EngineRequest): void {
    if (!entry.isSuspect || entry.deaths > 1) return
    entry.isSuspect = false
    this.#suspects--
    if (this.#alone === entry) this.#alone = undefined
  }

  #move(entry: EngineRequest, phase: Phase): void {
    this.#counts[entry.phase]--
    entry.phase = phase
    this.#counts[phase]++
  }
}
