import type { Clock, Random, EngineInfo, Logger } from '@cllm/core'
import { cancelReason, CllmError, failureOf } from '@cllm/core'
import { withSeed } from '../fleet/in-flight-table.js'
import type { TelemetryTap } from '../recorder/telemetry-tap.js'
import { isAnswer, PendingCalls } from './pending-calls.js'
import type { Call, Channel, FromEngine, Submission, ToEngine } from '../remote/channel.js'
import type { EngineLink, StartEngine } from './engine-link.js'
import { HangDetector } from './hang-detector.js'
import { EngineRequest, EngineRequests } from './engine-requests.js'
import { RestartDelays } from './restart-delays.js'
import type { SupervisorOptions } from './supervisor-options.js'

/** The state of the engine. */
export type SupervisorState = 'starting' | 'up' | 'restarting' | 'gone'

/**
 * A channel to an engine that is restarted when it crashes, hangs or cannot be reached: waiting requests
 * keep their places, running requests continue from the tokens received so far. It closes when the
 * engine cannot be started.
 */
export class EngineSupervisor implements Channel<ToEngine, FromEngine> {
  state: SupervisorState = 'starting'
  /** Engines after the first one. */
  restarts = 0
  readonly #requests: EngineRequests
  readonly #hangs: HangDetector
  readonly #calls = new PendingCalls()
  readonly #delays: RestartDelays
  #link: EngineLink | undefined
  #info: EngineInfo | undefined
  #failedStarts = 0
  #failure: string | undefined
  #drains: number[] | undefined
  #isClosing = false
  #cancelTimer: (() => void) | undefined
  #cancelExpiry: (() => void) | undefined
  #onMessage: (message: FromEngine) => void = () => {}
  /** Resolves when there is no engine and will be none, with the reason. */
  readonly gone: Promise<string>
  #onGone: (reason: string) => void = () => {}
  #goneReason: string | undefined
  readonly #onState: ((state: SupervisorState) => void)[] = []
  #onClose: (reason: string) => void = () => {}

  constructor(
    private readonly startEngine: StartEngine,
    private readonly options: SupervisorOptions,
    private readonly clock: Clock,
    private readonly random: Random,
    private readonly logger: Logger,
    private readonly telemetry: TelemetryTap,
  ) {
    this.gone = new Promise((resolve) => (this.#onGone = resolve))
    this.#requests = new EngineRequests(clock)
    this.#delays = new RestartDelays(clock, options.restartDelaysMs)
    const debts = { isUp: () => this.state === 'up', requests: this.#requests, calls: this.#calls }
    this.#hangs = new HangDetector(clock, options, debts, (what) => this.#kill(what))
    this.#start()
  }

  send(message: ToEngine): void {
    this.telemetry.onClientMessage(message)
    if (this.state === 'gone') return
    if (message.type === 'submit') this.#submit(message)
    else if (message.type === 'cancel') this.#cancel(message)
    else if (message.type === 'leave') {
      this.#calls.onLeave(message.call)
      if (this.state === 'up') this.#link?.channel.send(message)
      this.#moveOn()
    } else this.#call(message)
    this.#hangs.update()
  }

  onMessage(listener: (message: FromEngine) => void): void {
    this.#onMessage = listener
  }

  onClose(listener: (reason: string) => void): void {
    this.#onClose = listener
    // The first start may have failed before anything could listen.
    if (this.#goneReason !== undefined) listener(this.#goneReason)
  }

  /** Calls back whenever an engine has become ready or is gone. */
  onState(listener: (state: SupervisorState) => void): void {
    this.#onState.push(listener)
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
      // Late messages of an exited engine are ignored: its successor samples the same tokens again.
      link.channel.onMessage((message) => void (this.#link === link && this.#receive(message)))
      link.channel.onClose((reason) => {
        if (this.#link !== link) return
        this.telemetry.onExit(reason)
        this.#onExit(reason)
        for (const listener of this.#onState) listener(this.state)
      })
    } catch (error) {
      this.#onExit(String(error))
    }
  }

  #receive(message: FromEngine): void {
    this.telemetry.onEngineMessage(message)
    this.#hangs.onMessage(message)
    if (message.type === 'ready') this.#ready(message.info)
    else if (message.type === 'failed') {
      this.#failure = message.error.message
      if (this.#info === undefined) this.#tell(message)
    } else if (message.type === 'preparing') this.#requests.onPhase(message.id, 'preparing')
    else if (message.type === 'prepared') this.#requests.onPhase(message.id, 'running')
    else if (message.type === 'events') {
      const events = this.#requests.onEvents(message.events)
      if (events.length > 0) this.#tell({ type: 'events', events })
    } else if (isAnswer(message) && this.#calls.onAnswer(message)) this.#tell(message)
    if (message.type === 'events' || isAnswer(message)) this.#moveOn()
    this.#hangs.update()
  }

  #ready(info: EngineInfo): void {
    this.#cancelTimer?.()
    this.state = 'up'
    this.#delays.onUp()
    this.#failedStarts = 0
    this.#failure = undefined
    const { size } = this.#requests
    if (this.#info !== undefined) this.logger.warn({ requests: size }, 'the engine is back')
    this.#tell({ type: 'ready', info })
    this.#info = info
    const policy = this.#calls.policy()
    if (policy !== undefined) this.#pass(policy)
    this.#moveOn()
    for (const listener of this.#onState) listener(this.state)
  }

  /** Submits what the engine may have now. */
  #moveOn(): void {
    let isMore = this.state === 'up'
    // In place of one that cannot be sent, others may have their turn.
    while (isMore) {
      isMore = false
      const { hasSuspects } = this.#requests
      for (const call of this.#calls.take(hasSuspects)) isMore = !this.#pass(call) || isMore
      if (this.#calls.hasSuspects) continue
      for (const message of this.#requests.take()) isMore = !this.#pass(message) || isMore
    }
    this.#watchHeld()
    if (this.#requests.size > 0 || this.#calls.isEmbedding) return
    for (const call of this.#drains?.splice(0) ?? [])
      this.#tell({ type: 'result', call, value: null })
  }

  /** Sends what may be too deep or too large for a message: then that one ends, and no other. */
  #pass(message: Submission | Call): boolean {
    try {
      this.#link?.channel.send(message)
      return true
    } catch (cause) {
      const error = CllmError.from(cause)
      if (message.type === 'submit') this.#drop(this.#requests.get(message.id)!, error)
      else {
        this.#calls.onLeave(message.call)
        this.#tell({ type: 'error', call: message.call, error: error.serialize() })
      }
      return false
    }
  }

  #submit({ id, request }: Submission): void {
    try {
      this.#ensureTaken(id)
    } catch (error) {
      return this.#fail(id, CllmError.from(error))
    }
    const seeded = withSeed(request, this.random)
    this.#requests.add(new EngineRequest(id, seeded, this.clock.now()))
    this.#moveOn()
  }

  /** Throws why a new request is refused. */
  #ensureTaken(id: string): void {
    if (this.#drains !== undefined || this.#isClosing) {
      throw new CllmError('shutting_down', 'The engine takes no new requests')
    }
    this.#requests.ensureFree(id)
    const limit = this.options.maxQueuedRequests
    if (this.#info === undefined) return
    if (this.state === 'up' && !this.#requests.isHolding) return
    if (this.#requests.size < limit + this.#info.limits.slots) return
    throw new CllmError('queue_full', `${limit} requests are waiting, which is the limit`)
  }

  #cancel(message: ToEngine & { readonly type: 'cancel' }): void {
    const { id, reason = cancelReason } = message
    const entry = this.#requests.get(id)
    if (entry === undefined) return
    if (entry.phase === 'held') return this.#drop(entry, new CllmError('cancelled', reason))
    entry.cancelReason ??= reason
    this.#link?.channel.send(message)
  }

  #call(message: Call): void {
    const { call, name } = message
    if (name === 'drain') {
      this.#drains ??= []
      this.#drains.push(call)
      return this.#moveOn()
    }
    if (name === 'close') {
      this.#isClosing = true
      const error = new CllmError('shutting_down', 'The engine is shutting down')
      for (const entry of this.#requests.held()) this.#drop(entry, error)
      if (this.state !== 'up') return this.#tell({ type: 'result', call, value: null })
    }
    const answer = this.#calls.add(message, this.state === 'up' || this.#info === undefined)
    if (answer !== undefined) this.#tell(answer)
    else this.#moveOn()
  }

  #kill(reason: string): void {
    this.#failure = reason
    this.logger.error({ reason }, 'the engine hangs and is killed')
    this.#link?.kill()
  }

  #onExit(reason: string): void {
    const why = this.#failure === undefined ? reason : `${this.#failure}; ${reason}`
    this.#failure = undefined
    this.#link = undefined
    this.#cancelTimer?.()
    if (this.#info === undefined || this.#isClosing) return this.#end(why)
    const wasUp = this.state === 'up'
    if (!wasUp && ++this.#failedStarts >= this.options.maxStarts) return this.#end(why)
    this.state = 'restarting'
    this.#hangs.update()
    this.restarts++
    const delay = this.#delays.next()
    const fields = { reason: why, delayMs: delay, requests: this.#requests.size }
    this.logger.error(fields, 'the engine is gone and is started again')
    this.#cancelTimer = this.clock.at(this.clock.now() + delay, () => this.#start())
    for (const answer of this.#calls.onExit()) this.#tell(answer)
    if (wasUp) for (const [id, error] of this.#requests.onExit(why)) this.#fail(id, error)
    this.#moveOn()
  }

  #end(reason: string): void {
    this.state = 'gone'
    this.#goneReason = reason
    this.#hangs.update()
    this.#cancelTimer?.()
    this.#cancelExpiry?.()
    this.#onGone(reason)
    this.#onClose(reason)
  }

  /** The engine ends its own requests on timeout; requests that it does not have end here. */
  #watchHeld(): void {
    this.#cancelExpiry?.()
    this.#cancelExpiry = undefined
    if (!this.#requests.isHolding) return
    const { late, next } = this.#requests.expired(this.options.requestTimeoutMs)
    for (const entry of late) {
      const message = 'The request did not end within its time limit, for lack of an engine'
      this.#drop(entry, new CllmError('timeout', message))
    }
    if (next < Infinity) this.#cancelExpiry = this.clock.at(next, () => this.#moveOn())
  }

  #drop(entry: EngineRequest, error: CllmError): void {
    this.#requests.remove(entry)
    this.#fail(entry.id, error)
  }

  #tell(message: FromEngine): void {
    this.#onMessage(this.telemetry.onAnswer(message))
  }

  #fail(id: string, error: CllmError): void {
    this.#tell({ type: 'events', events: [{ id, event: failureOf(error) }] })
  }
}
