import {
  type AddressedEvent,
  CllmError,
  type Clock,
  type GenerateRequest,
  type Logger,
  type Placement,
  type Random,
  type RequestEvent,
  type RouterPolicy,
} from '@cllm/core'
import { HeldRequests } from './held-requests.js'
import type { Member, Members } from './members.js'
import { PlacedRequest } from './placed-request.js'
import type { PlacingCounts, PlacingOptions } from './placing-options.js'
import { SharedService } from './shared-service.js'

/** What placing is made of. */
export interface PlacingParts {
  readonly members: Members
  readonly router: RouterPolicy
  readonly clock: Clock
  readonly random: Random
  readonly logger: Logger
  readonly options: PlacingOptions
  /** Events for the front's clients. */
  readonly publish: (events: readonly AddressedEvent[]) => void
}

/** How long a held request waits at least before the router is asked again. */
const minHoldMs = 5
const lastEnded = 1000

/**
 * The requests of a front: where each one is, and how far. One whose worker is lost goes on at another
 * one, after its last token: with the same prompt and seed, the same tokens follow.
 */
export class Placing {
  readonly counts: PlacingCounts = { placed: 0, movedExactly: 0, movedInexactly: 0 }
  readonly #requests = new Map<string, PlacedRequest>()
  readonly #onWire = new Map<string, PlacedRequest>()
  readonly #held: HeldRequests
  readonly #ended = new Map<string, PlacedRequest>()
  readonly #service: SharedService
  #placements = 0
  #tokensPerCharacter = 0.3

  constructor(private readonly parts: PlacingParts) {
    const { members } = parts
    const workers = () => members.all.map(({ record }) => record.id)
    this.#service = new SharedService(parts.clock, workers, (worker, services) =>
      members.get(worker)?.link.send({ type: 'served', services }),
    )
    this.#held = new HeldRequests(parts.clock, parts.options.patienceMs, {
      onTurn: (placed) => this.#place(placed),
      onExpired: (placed, error) => this.#fail(placed, error),
    })
  }

  get size(): number {
    return this.#requests.size
  }

  /** A request under way, or one of the last that ended. */
  find(id: string): PlacedRequest | undefined {
    return this.#requests.get(id) ?? this.#ended.get(id)
  }

  /** The ids of these requests by those that their workers have. */
  idsByWire(): ReadonlyMap<string, string> {
    const ids = new Map<string, string>()
    for (const { wireId, id } of [...this.#ended.values(), ...this.#requests.values()]) {
      if (wireId !== undefined) ids.set(wireId, id)
    }
    return ids
  }

  submit(id: string, request: GenerateRequest): void {
    const { sampling } = request
    if (this.#requests.has(id)) {
      const message = `A request with the id "${id}" is under way`
      return this.#tell(id, failure(new CllmError('duplicate_request', message)))
    }
    // The next worker would choose another one.
    const seed = sampling?.seed ?? this.parts.random.uint32()
    const seeded = { ...request, sampling: { ...sampling, seed } }
    const placed = new PlacedRequest(id, seeded, this.#tokensPerCharacter, this.parts.clock)
    this.#requests.set(id, placed)
    this.#place(placed)
  }

  cancel(id: string, reason = 'The request was cancelled'): void {
    const placed = this.#requests.get(id)
    if (placed === undefined) return
    const member = this.parts.members.get(placed.worker)
    if (member === undefined) return this.#fail(placed, new CllmError('cancelled', reason))
    placed.entry.cancelReason ??= reason
    member.link.send({ type: 'cancel', id: placed.wireId!, reason })
  }

  /** Ends all that is under way. */
  failAll(error: CllmError): void {
    for (const placed of this.#requests.values()) {
      this.#release(placed)
      this.#fail(placed, error)
    }
  }

  /** Asks the router again about the requests that wait for a worker. */
  retry(): void {
    this.#held.retry()
  }

  /** Events of a worker. */
  onEvents(member: Member, events: readonly AddressedEvent[]): void {
    const fresh: AddressedEvent[] = []
    for (const { id: wireId, event } of events) {
      const placed = this.#onWire.get(wireId)
      // What an earlier worker still says is not heard.
      if (placed === undefined || placed.worker !== member.record.id) continue
      this.#service.onEvent(member.record.id, placed.entry.request.tenant, event)
      const told = this.#take(placed, event, member)
      if (told !== undefined) fresh.push({ id: placed.id, event: told })
    }
    if (fresh.length > 0) this.parts.publish(fresh)
  }

  /** A worker is lost: what it had goes on elsewhere. */
  onLost(worker: string): void {
    const own = [...this.#requests.values()].filter((placed) => placed.worker === worker)
    for (const placed of own) this.#move(placed)
    if (own.length > 0) this.parts.logger.warn({ worker, requests: own.length }, 'requests move')
  }

  /**
   * The engine of a worker died and is started again. What has a token of it goes on at another worker at
   * once. The others, and those that lost an engine before, may be what kills engines: that worker runs
   * them one at a time.
   */
  onRestarting(worker: string): void {
    if (!this.parts.members.table.hasEligible) return
    for (const placed of this.#requests.values()) {
      if (placed.worker !== worker || !placed.entry.isProven || placed.hasCrashed) continue
      placed.hasCrashed = true
      this.#move(placed)
    }
  }

  #take(placed: PlacedRequest, event: RequestEvent, member: Member): RequestEvent | undefined {
    const { entry } = placed
    if (event.type === 'start') {
      this.#learn(placed, event.promptTokens)
      if (entry.isAccepted) return undefined
      entry.isAccepted = true
      return { ...event, id: placed.id }
    }
    if (event.type === 'token') {
      entry.onToken(event.token, this.parts.clock.now())
      placed.fingerprint = member.record.fingerprint
      return event
    }
    if (
      event.type === 'error' &&
      isOfWorker(event.error.code) &&
      entry.cancelReason === undefined
    ) {
      this.#move(placed)
      return undefined
    }
    this.#remove(placed)
    return event
  }

  #move(placed: PlacedRequest): void {
    this.#release(placed)
    const { cancelReason } = placed.entry
    placed.moves++
    if (cancelReason !== undefined) this.#fail(placed, new CllmError('cancelled', cancelReason))
    else if (placed.moves > this.parts.options.maxMoves) {
      const message = `${placed.moves} workers were lost while they ran this request`
      this.#fail(placed, new CllmError('engine_crashed', message))
    } else this.#place(placed)
  }

  #place(placed: PlacedRequest): void {
    const { members, clock } = this.parts
    const now = clock.now()
    const request = placed.routed
    const same = ({ record }: Member) => record.fingerprint === placed.fingerprint
    const isMoving = placed.fingerprint !== undefined
    const fit = isMoving
      ? new Set(members.all.filter(same).map(({ record }) => record.id))
      : undefined
    let views = members.table.views(request, now, fit && ((id) => fit.has(id)))
    const isExact = views.length > 0
    if (!isExact && isMoving) views = members.table.views(request, now)
    if (views.length === 0) return this.#held.add(placed, Infinity)
    const answer = this.#ask(request, views, now)
    if ('holdMs' in answer) {
      return this.#held.add(placed, now + Math.max(minHoldMs, answer.holdMs))
    }
    if ('refuse' in answer) {
      const details = answer.retryMs === undefined ? {} : { retryAfterMs: answer.retryMs }
      return this.#fail(placed, new CllmError('rejected', answer.refuse, { details }))
    }
    const member = members.get(answer.worker)
    if (member === undefined) return this.#held.add(placed, now + 1000)
    this.#held.delete(placed)
    if (isMoving) this.counts[isExact ? 'movedExactly' : 'movedInexactly']++
    this.#send(placed, member, now)
  }

  #ask(...question: Parameters<RouterPolicy['place']>): Placement {
    try {
      return this.parts.router.place(...question)
    } catch (error) {
      this.parts.logger.error({ err: error }, 'the router failed: the first worker is taken')
      return { worker: question[1][0]!.id }
    }
  }

  #send(placed: PlacedRequest, member: Member, now: number): void {
    const { members } = this.parts
    const { promptTokens, blocks, blockTokens } = placed.routed
    const placement = members.table.place(member.record.id, placed.routed, now)
    placed.worker = member.record.id
    placed.wireId = String(++this.#placements)
    placed.entry.isProven = false
    this.#onWire.set(placed.wireId, placed)
    this.counts.placed++
    const continuedTokens = placed.entry.tokens.length
    member.link.send({
      type: 'place',
      placement,
      routed: { promptTokens, blocks, blockTokens, continuedTokens },
      submit: placed.message(placed.wireId, now),
    })
  }

  #learn(placed: PlacedRequest, promptTokens: number): void {
    if (placed.characters < 64) return
    this.#tokensPerCharacter += 0.1 * (promptTokens / placed.characters - this.#tokensPerCharacter)
  }

  /** Its worker need not go on with it, if it still does. */
  #release(placed: PlacedRequest): void {
    const { worker, wireId } = placed
    if (wireId !== undefined) {
      this.#onWire.delete(wireId)
      const reason = 'The request goes on elsewhere'
      this.parts.members.get(worker)?.link.send({ type: 'cancel', id: wireId, reason })
    }
    placed.worker = undefined
    placed.wireId = undefined
  }

  #remove(placed: PlacedRequest): void {
    if (placed.wireId !== undefined) this.#onWire.delete(placed.wireId)
    this.#requests.delete(placed.id)
    this.#held.delete(placed)
    this.#ended.set(placed.id, placed)
    const [oldest] = this.#ended.keys()
    if (this.#ended.size > lastEnded && oldest !== undefined) this.#ended.delete(oldest)
  }

  #fail(placed: PlacedRequest, error: CllmError): void {
    this.#remove(placed)
    this.#tell(placed.id, failure(error))
  }

  #tell(id: string, event: RequestEvent): void {
    this.parts.publish([{ id, event }])
  }
}

/** Failures that say nothing of the request: another worker can have it. */
function isOfWorker(code: string): boolean {
  return code === 'engine_unavailable' || code === 'shutting_down'
}

function failure(error: CllmError): RequestEvent {
  return { type: 'error', error: error.serialize() }
}
