import type { Clock, Random } from '../contracts/clock.js'
import type { EngineInfo } from '../contracts/engine-client.js'
import type { Logger } from '../contracts/logger.js'
import { CllmError } from '../errors/cllm-error.js'
import { CallDesk } from './call-desk.js'
import type { Channel, FromEngine, ToEngine } from './channel.js'
import { type LedgerEntry, RequestLedger } from './request-ledger.js'
import type { SupervisorOptions } from './supervisor-options.js'
import { Watchdog } from './watchdog.js'

/** An engine's process that was started. */
export interface EngineLink {
  /** To it: it says `ready` or `failed`, or closes. */
  readonly channel: Channel<ToEngine, FromEngine>
  /** Ends it at once; its channel closes. */
  readonly kill: () => void
}

/** Starts a process with an engine. */
export type StartEngine = () => EngineLink

/** How the engine is. */
export type SupervisorState = 'starting' | 'up' | 'restarting' | 'gone'

/** An engine that lived so long was well. */
const stableMs = 60_000

/**
 * A channel to an engine that is started again when it dies, hangs or cannot be reached: requests
 * that wait keep their places, those that ran go on from the tokens whose events have come. It closes
 * when the engine cannot be started any more, or never could.
 */
export class EngineSupervisor implements Channel<ToEngine, FromEngine> {
  state: SupervisorState = 'starting'
  /** Engines after the first one. */
  restarts = 0
  readonly #ledger: RequestLedger
  readonly #calls = new CallDesk()
  readonly #steps: Watchdog
  readonly #answers: Watchdog
  #link: EngineLink | undefined
  #info: EngineInfo | undefined
  #upSince = 0
  #deaths = 0
  #failedStarts = 0
  #failure: string | undefined
  #drains: number[] | undefined
  #isClosing = false
  #cancelTimer: (() => void) | undefined
  #cancelExpiry: (() => void) | undefined
  #tell: (message: FromEngine) => void = () => {}
  #onClose: (reason: string) => void = () => {}

  constructor(
    private readonly startEngine: StartEngine,
    private readonly options: SupervisorOptions,
    private readonly clock: Clock,
    private readonly random: Random,
    private readonly logger: Logger,
  ) {
    const { hangTimeoutMs } = options
    const hang = (what: string) => () => this.#kill(`${what} for ${hangTimeoutMs / 1000} s`)
    const ledger = new RequestLedger(clock)
    this.#ledger = ledger
    this.#steps = new Watchdog(clock, hangTimeoutMs, () => ledger.submitted > 0, hang('no step'))
    this.#answers = new Watchdog(
      clock,
      hangTimeoutMs,
      () => this.#calls.size > 0,
      hang('no answer'),
    )
    this.#start()
  }

  send(message: ToEngine): void {
    if (this.state === 'gone') return
    if (message.type === 'submit') this.#submit(message)
    else if (message.type === 'cancel') this.#cancel(message)
    else if (message.type === 'leave') this.#leave(message)
    else this.#call(message)
  }

  onMessage(listener: (message: FromEngine) => void): void {
    this.#tell = listener
  }

  onClose(listener: (reason: string) => void): void {
    this.#onClose = listener
  }

  /** Ends the engine and all that is under way. */
  kill(): void {
    this.#isClosing = true
    if (this.#link === undefined) this.#end('it was stopped')
    else this.#link.kill()
  }

  #start(): void {
    const { startTimeoutMs } = this.options
    this.#cancelTimer = this.clock.at(this.clock.now() + startTimeoutMs, () =>
      this.#kill(`not ready after ${startTimeoutMs / 1000} s`),
    )
    try {
      const link = this.startEngine()
      this.#link = link
      // What a dead engine still says is not heard: its successor draws the same tokens again.
      link.channel.onMessage((message) => void (this.#link === link && this.#receive(message)))
      link.channel.onClose((reason) => void (this.#link === link && this.#lost(reason)))
    } catch (error) {
      this.#lost(String(error))
    }
  }

  #receive(message: FromEngine): void {
    if (message.type === 'ready') this.#ready(message.info)
    else if (message.type === 'failed') this.#failed(message)
    else if (message.type === 'events') {
      this.#steps.progress()
      const events = this.#ledger.heard(message.events)
      if (events.length > 0) this.#tell({ type: 'events', events })
      this.#moveOn()
    } else if (message.type === 'step') {
      this.#steps.progress()
      this.#ledger.admitted(message.admitted)
    } else {
      this.#answers.progress()
      if (this.#calls.answered(message)) this.#tell(message)
    }
  }

  #ready(info: EngineInfo): void {
    this.#cancelTimer?.()
    this.state = 'up'
    this.#upSince = this.clock.now()
    this.#failedStarts = 0
    this.#failure = undefined
    if (this.#info === undefined) this.#tell({ type: 'ready', info })
    else this.logger.warn({ requests: this.#ledger.size }, 'the engine is back')
    this.#info = info
    if (this.#calls.size > 0) this.#answers.begin()
    for (const call of this.#calls.resume()) this.#link?.channel.send(call)
    this.#moveOn()
  }

  #failed(message: FromEngine & { readonly type: 'failed' }): void {
    this.#failure = message.error.message
    if (this.#info === undefined) this.#tell(message)
  }

  /** Gives the engine what it may have now. */
  #moveOn(): void {
    const ledger = this.#ledger
    if (this.state === 'up') {
      const wasIdle = ledger.submitted === 0
      for (const message of ledger.take()) this.#link?.channel.send(message)
      if (wasIdle && ledger.submitted > 0) this.#steps.begin()
    }
    this.#watchHeld()
    if (ledger.size > 0) return
    for (const call of this.#drains?.splice(0) ?? []) this.#resolve(call)
  }

  #submit({ id, request }: ToEngine & { readonly type: 'submit' }): void {
    const error = this.#refusal(id)
    if (error !== undefined) return this.#fail(id, error)
    const { sampling } = request
    // The next engine would choose another one.
    const seed = sampling?.seed ?? this.random.uint32()
    const entry = this.#ledger.add(id, { ...request, sampling: { ...sampling, seed } })
    this.#moveOn()
    entry.isKept = !entry.isSubmitted
  }

  #refusal(id: string): CllmError | undefined {
    if (this.#drains !== undefined || this.#isClosing) {
      return new CllmError('shutting_down', 'The engine takes no new requests')
    }
    if (this.#ledger.get(id) !== undefined) {
      return new CllmError('duplicate_request', `A request with the id "${id}" is under way`)
    }
    const limit = this.options.maxQueuedRequests
    if (this.state === 'up' || this.#info === undefined) return undefined
    if (this.#ledger.size < limit + this.#info.limits.slots) return undefined
    return new CllmError('queue_full', `${limit} requests are waiting, which is the limit`)
  }

  #cancel(message: ToEngine & { readonly type: 'cancel' }): void {
    const { id, reason = 'The request was cancelled' } = message
    const entry = this.#ledger.get(id)
    if (entry?.isSubmitted === true) this.#link?.channel.send(message)
    else if (entry !== undefined) this.#drop(entry, new CllmError('cancelled', reason))
  }

  #leave(message: ToEngine & { readonly type: 'leave' }): void {
    this.#calls.left(message.call)
    if (this.state === 'up') this.#link?.channel.send(message)
  }

  #call(message: ToEngine & { readonly type: 'call' }): void {
    const { call, name } = message
    if (name === 'drain') {
      this.#drains ??= []
      this.#drains.push(call)
      return this.#moveOn()
    }
    if (name === 'close') {
      this.#isClosing = true
      const error = new CllmError('shutting_down', 'The engine is shutting down')
      for (const entry of this.#ledger.held()) this.#drop(entry, error)
      if (this.state !== 'up') return this.#resolve(call)
    }
    const wasIdle = this.#calls.size === 0
    const answer = this.#calls.take(message, this.state === 'up' || this.#info === undefined)
    if (answer !== undefined) this.#tell(answer)
    else if (this.state === 'up') {
      if (wasIdle) this.#answers.begin()
      this.#link?.channel.send(message)
    }
  }

  #resolve(call: number): void {
    this.#tell({ type: 'result', call, value: null })
  }

  #kill(reason: string): void {
    this.#failure = reason
    this.logger.error({ reason }, 'the engine hangs and is killed')
    this.#link?.kill()
  }

  #lost(reason: string): void {
    const why = this.#failure === undefined ? reason : `${this.#failure}; ${reason}`
    this.#failure = undefined
    this.#link = undefined
    this.#cancelTimer?.()
    this.#steps.stop()
    this.#answers.stop()
    if (this.#info === undefined || this.#isClosing) return this.#end(why)
    const wasUp = this.state === 'up'
    if (!wasUp && ++this.#failedStarts >= this.options.maxStarts) return this.#end(why)
    this.state = 'restarting'
    this.restarts++
    const delay = this.#delay()
    const fields = { reason: why, delayMs: delay, requests: this.#ledger.size }
    this.logger.error(fields, 'the engine is gone and is started again')
    this.#cancelTimer = this.clock.at(this.clock.now() + delay, () => this.#start())
    for (const answer of this.#calls.died()) this.#tell(answer)
    const culprit = wasUp ? this.#ledger.died() : undefined
    if (culprit !== undefined) this.#fail(culprit.id, crashed(why))
    this.#moveOn()
  }

  #delay(): number {
    if (this.clock.now() - this.#upSince >= stableMs) this.#deaths = 0
    const { restartDelaysMs } = this.options
    return restartDelaysMs[this.#deaths++] ?? restartDelaysMs.at(-1) ?? 0
  }

  #end(reason: string): void {
    this.state = 'gone'
    this.#cancelTimer?.()
    this.#cancelExpiry?.()
    this.#onClose(reason)
  }

  /** The engine ends requests that are over their time; those that it does not have end here. */
  #watchHeld(): void {
    this.#cancelExpiry?.()
    this.#cancelExpiry = undefined
    if (!this.#ledger.isHolding) return
    let next = Infinity
    for (const entry of this.#ledger.held()) {
      const timeout = entry.request.timeoutMs ?? this.options.requestTimeoutMs ?? Infinity
      const expires = entry.arrival + timeout
      if (expires <= this.clock.now()) {
        const message = 'The request did not end within its time limit, for lack of an engine'
        this.#drop(entry, new CllmError('timeout', message))
      } else next = Math.min(next, expires)
    }
    if (next < Infinity) this.#cancelExpiry = this.clock.at(next, () => this.#moveOn())
  }

  #drop(entry: LedgerEntry, error: CllmError): void {
    this.#ledger.remove(entry)
    this.#fail(entry.id, error)
  }

  #fail(id: string, error: CllmError): void {
    this.#tell({
      type: 'events',
      events: [{ id, event: { type: 'error', error: error.serialize() } }],
    })
  }
}

function crashed(reason: string): CllmError {
  const message = `The engine died while it computed this request alone: ${reason}`
  return new CllmError('engine_crashed', message)
}
