import type { AddressedEvent, GenerateRequest, RequestEvent, Services } from '@cllm/core'
import { cancelReason, CllmError, failureOf, isOfBatch, setLatest } from '@cllm/core'
import { duplicate, waitedTooLong, Waiting, withSeed } from '@cllm/host'
import { type Choosing, chooseWorker, isExactOn } from './choose-worker.js'
import { isUp, type Member, noWorker, requestTooLarge } from '../members.js'
import { PlacedRequest, type Whereabouts } from './placed-request.js'
import { forEachEvent, type StepEvents } from '../../messages.js'
import { SharedService } from '../shared-service.js'

/** Limits of a front. */
export interface PlacingOptions {
  /** Milliseconds that a request waits for a worker while there is none; default 30,000. */
  readonly patienceMs: number
  /** A request that loses more workers than this fails, as it may be the cause of their deaths. Default 10. */
  readonly maxMoves: number
}

/** The defaults of {@link PlacingOptions}. */
export const defaultPlacingOptions: PlacingOptions = Object.freeze({
  patienceMs: 30_000,
  maxMoves: 10,
})

/** Counters of a front. */
export interface PlacingCounts {
  /** Placed requests, including moves. */
  placed: number
  /** Requests that went on at another worker with the same fingerprint … */
  movedExactly: number
  /** … and at one that may round differently. */
  movedInexactly: number
}

/** The parts of {@link Placing}. */
export interface PlacingParts extends Choosing, Services {
  readonly options: PlacingOptions
  /** Sends events to the front's clients. */
  readonly publish: (events: readonly AddressedEvent[]) => void
}

const lastEnded = 1000

/**
 * The requests of a front, with their workers and their tokens so far. A request whose worker is lost goes on at
 * another one after its last token: with the same prompt and seed, the same tokens follow.
 */
export class Placing {
  readonly counts: PlacingCounts = { placed: 0, movedExactly: 0, movedInexactly: 0 }
  readonly #requests = new Map<string, PlacedRequest>()
  /** The last ended requests, without their prompts, which may be long. */
  readonly #ended = new Map<string, Whereabouts>()
  readonly #waiting: Waiting<PlacedRequest>
  readonly #service: SharedService
  #tokensPerCharacter = 0.3

  constructor(private readonly parts: PlacingParts) {
    const { members } = parts
    const workers = () => members.all.map(({ record }) => record.id)
    this.#service = new SharedService(parts.clock, workers, (worker, services) =>
      members.get(worker)?.link.send({ type: 'served', services }),
    )
    this.#waiting = new Waiting(parts.clock, {
      onTurn: (placed) => this.#place(placed),
      onExpired: (placed, isLate) =>
        this.#fail(placed, isLate ? waitedTooLong('a worker') : (placed.refusal ?? noWorker())),
      sleep: parts.sleep,
    })
  }

  /** A request in progress, or one of the last ended ones. */
  find(id: string): Whereabouts | undefined {
    return this.#requests.get(id)?.whereabouts ?? this.#ended.get(id)
  }

  submit(id: string, request: GenerateRequest): void {
    if (this.#requests.has(id)) return this.#tell(id, failureOf(duplicate(id)))
    const seeded = withSeed(request, this.parts.random)
    const placed = new PlacedRequest(id, seeded, this.#tokensPerCharacter, this.parts.clock)
    this.#requests.set(id, placed)
    this.#place(placed)
  }

  cancel(id: string, reason = cancelReason): void {
    const placed = this.#requests.get(id)
    if (placed === undefined) return
    const { member, placement = 0 } = placed
    if (member === undefined) return this.#fail(placed, new CllmError('cancelled', reason))
    placed.cancelReason ??= reason
    member.link.send({ type: 'cancel', placement, reason })
  }

  /** Ends all requests with an error. */
  failAll(error: CllmError): void {
    for (const placed of this.#requests.values()) {
      this.#release(placed)
      this.#fail(placed, error)
    }
  }

  /** Asks the router again about the waiting requests. */
  retry(): void {
    this.#waiting.retry()
  }

  /** Takes the events of a worker's step. */
  onEvents(member: Member, events: StepEvents): void {
    const { id: worker } = member.record
    const now = this.parts.clock.now()
    const fresh: AddressedEvent[] = []
    forEachEvent(events, (placement, event) => {
      const placed = member.requests.get(placement)
      if (placed === undefined) return
      const { tenant } = placed.request
      if (tenant !== undefined) this.#service.onEvent(worker, tenant, event)
      const told = this.#take(placed, event, member, now)
      if (told !== undefined) fresh.push({ id: placed.id, event: told })
    })
    if (fresh.length > 0) this.parts.publish(fresh)
  }

  /** Moves the requests of a lost worker to other ones. Returns their number. */
  onLost(member: Member): number {
    const own = requestsOn(member)
    for (const placed of own) this.#onLoss(placed)
    return own.length
  }

  /**
   * Handles the restart of a worker's engine that died. Requests with a token from it go on at another worker at
   * once. The others, and those that have lost an engine before, may be the cause: they stay, and that worker runs
   * them one at a time.
   */
  onRestarting(member: Member): void {
    if (!this.parts.members.table.hasEligible) return
    for (const placed of requestsOn(member)) {
      if (!placed.isProven || placed.hasCrashed) continue
      placed.hasCrashed = true
      this.#onLoss(placed)
    }
  }

  /**
   * Moves the requests of a worker that asks for it to other workers that can continue them exactly. The other
   * requests end where they are.
   */
  onMigrating(member: Member): void {
    const { members } = this.parts
    const { id: worker } = member.record
    let moved = 0
    for (const placed of requestsOn(member)) {
      const isElsewhere = members.all.some(
        ({ record, state }) => record.id !== worker && state === 'up' && isExactOn(placed, record),
      )
      if (!isElsewhere) continue
      this.#move(placed)
      moved++
    }
    if (moved > 0) this.parts.logger.info({ worker, requests: moved }, 'requests move')
  }

  /** Moves requests of batches away from a worker that has got a request of a client. */
  onClients(member: Member): void {
    for (const placed of requestsOn(member)) if (isOfBatch(placed.request)) this.#move(placed)
  }

  #take(placed: PlacedRequest, event: RequestEvent, member: Member, now: number) {
    const isFresh = placed.take(event, now)
    if (event.type === 'token') placed.drawnBy = member.record
    if (event.type === 'token' || event.type === 'progress') return event
    if (event.type === 'start') {
      this.#learn(placed, event.promptTokens)
      return isFresh ? { ...event, id: placed.id } : undefined
    }
    const isLost = event.type === 'error' && isOfWorker(event.error.code)
    if (isLost && placed.cancelReason === undefined) {
      this.#onLoss(placed)
      return undefined
    }
    const tokens = event.type === 'end' ? event.usage.promptTokens : placed.promptTokens
    this.parts.members.table.end(member.record.id, tokens)
    if (event.type === 'error' && event.error.code === 'prompt_too_long') {
      const { contextSize } = member.record.info.limits
      // A request with tokens from a larger worker waits for such a one, which is often started again.
      const { contextSize: drawn = 0 } = placed.drawnBy?.info.limits ?? {}
      if (drawn > contextSize || this.parts.members.larger(contextSize).some(isUp)) {
        placed.refusedContext = contextSize
        placed.refusal = CllmError.deserialize(event.error)
        this.#move(placed)
        return undefined
      }
    }
    this.#remove(placed)
    return event
  }

  #onLoss(placed: PlacedRequest): void {
    if (++placed.deaths <= this.parts.options.maxMoves) return this.#move(placed)
    this.#release(placed)
    const message = `${placed.deaths} workers were lost while they ran this request`
    this.#fail(placed, new CllmError('engine_crashed', message))
  }

  #move(placed: PlacedRequest): void {
    this.#release(placed)
    const { cancelReason } = placed
    placed.moves++
    if (cancelReason !== undefined) this.#fail(placed, new CllmError('cancelled', cancelReason))
    else this.#place(placed)
  }

  #place(placed: PlacedRequest): void {
    const now = this.parts.clock.now()
    const choice = chooseWorker(placed, this.parts, now)
    const { members, options } = this.parts
    const { refusedContext: refused } = placed
    // A batch's requests wait without a limit while clients occupy all workers that may take them.
    const isLimited =
      !isOfBatch(placed.request) || (refused > 0 && members.larger(refused).length === 0)
    const patienceMs = isLimited ? options.patienceMs : Infinity
    if ('holdUntil' in choice) return this.#waiting.add(placed, choice.holdUntil, patienceMs)
    if ('error' in choice) return this.#fail(placed, choice.error)
    this.#waiting.delete(placed)
    const { member, isExact } = choice
    if (placed.drawnBy !== undefined) {
      this.counts[isExact ? 'movedExactly' : 'movedInexactly']++
    }
    this.#send(placed, member, now)
  }

  #send(placed: PlacedRequest, member: Member, now: number): void {
    const { routed } = placed
    const { promptTokens, blocks, blockTokens, files } = routed
    const { table } = this.parts.members
    const placement = table.place(member.record.id, routed, now)
    placed.member = member
    placed.placement = placement
    placed.isProven = false
    member.requests.set(placement, placed)
    const continuedTokens = placed.tokens.length
    const isSent = member.link.send({
      type: 'place',
      placement,
      routed: { promptTokens, blocks, blockTokens, files, continuedTokens },
      request: placed.continuedAt(now),
    })
    if (isSent) {
      this.counts.placed++
      return
    }
    table.unplace(member.record.id, placement)
    this.#fail(placed, requestTooLarge())
  }

  #learn(placed: PlacedRequest, promptTokens: number): void {
    if (placed.characters < 64) return
    this.#tokensPerCharacter += 0.1 * (promptTokens / placed.characters - this.#tokensPerCharacter)
  }

  /** Takes a request away from its worker, which cancels it. */
  #release(placed: PlacedRequest): void {
    const { member, placement = 0 } = placed
    placed.member = placed.placement = undefined
    if (member?.requests.delete(placement) !== true) return
    member.link.send({ type: 'cancel', placement, reason: 'The request goes on elsewhere' })
  }

  #remove(placed: PlacedRequest): void {
    const { id, member, placement = 0 } = placed
    this.#waiting.delete(placed)
    member?.requests.delete(placement)
    if (this.#requests.delete(id)) setLatest(this.#ended, id, placed.whereabouts, lastEnded)
  }

  #fail(placed: PlacedRequest, error: CllmError): void {
    this.#remove(placed)
    this.#tell(placed.id, failureOf(error))
  }

  #tell(id: string, event: RequestEvent): void {
    this.parts.publish([{ id, event }])
  }
}

/** A copy, as a request that is moved may come back to its worker. */
const requestsOn = ({ requests }: Member): readonly PlacedRequest[] => [...requests.values()]

/** Whether an error is the worker's and not the request's, so that another worker can take the request. */
const isOfWorker = (code: string): boolean =>
  code === 'engine_unavailable' || code === 'shutting_down'
