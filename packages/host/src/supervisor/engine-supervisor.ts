import type { Clock, EngineInfo, Logger, Random } from '@cllm/core'
import { cancelReason, CllmError, defined, failureOf, shuttingDown, takesNone } from '@cllm/core'
import { duplicate, waitedTooLong, withSeed } from '../fleet/in-flight-request.js'
import { Waiting } from '../fleet/waiting.js'
import type { TelemetryTap } from '../recorder/telemetry-tap.js'
import type {
  Call,
  Channel,
  FromEngine,
  Submission,
  ToEngine,
  EngineCallName,
} from '../remote/channel.js'
import { EngineRequest, EngineWork } from './engine-work.js'
import { HangDetector } from './hang-detector.js'
import type { EngineLink, StartEngine, SupervisorOptions } from './supervisor-options.js'

/** The state of the engine. */
export type SupervisorState = 'starting' | 'up' | 'restarting' | 'gone'

/** Uptime in milliseconds after which the backoff of restarts is reset. */
const stableMs = 60_000
const nothingOwed = { steps: false, answers: false, preparation: false }

/**
 * A channel to an engine that is restarted when it crashes, hangs or cannot be reached: waiting requests
 * keep their places, running requests continue from the tokens received so far. It closes when the
 * engine cannot be started.
 */
export class EngineSupervisor implements Channel<ToEngine, FromEngine> {
  state: SupervisorState = 'starting'
  /** The number of engines after the first one. */
  restarts = 0
  readonly #work: EngineWork
  readonly #hangs: HangDetector
  #link: EngineLink | undefined
  /** The slots of the engine; before the first one is ready, unlimited. */
  #slots = Infinity
  #upSince = 0
  /** Engines in a row that died soon after they were ready. */
  #deaths = 0
  #failedStarts = 0
  #failure: string | undefined
  #isClosing = false
  #cancelTimer: (() => void) | undefined
  #onMessage: (message: FromEngine) => void = () => {}
  /** Resolves when there is no engine and will be none, with the reason. */
  readonly gone: Promise<string>
  #onGone: (reason: string) => void = () => {}
  readonly #onState: ((state: SupervisorState) => void)[] = []

  constructor(
    private readonly startEngine: StartEngine,
    private readonly options: SupervisorOptions,
    private readonly clock: Clock,
    private readonly random: Random,
    private readonly logger: Logger,
    private readonly telemetry: TelemetryTap,
  ) {
    this.gone = new Promise((resolve) => (this.#onGone = resolve))
    // The engine ends its own requests on timeout; requests that it does not have end here.
    const onExpired = (entry: EngineRequest): void => {
      this.#drop(entry, waitedTooLong('an engine'))
      this.#moveOn()
    }
    this.#work = new EngineWork(new Waiting(clock, { onExpired }))
    this.#hangs = new HangDetector(clock, options, (what) =>
      // The policy may be what hangs; the engine itself can no longer report it.
      this.#kill(`${what} under the policy "${telemetry.policy}"`),
    )
    this.#start()
  }

  send(message: ToEngine): void {
    this.telemetry.onClientMessage(message)
    if (this.state === 'gone') return
    if (message.type === 'submit') this.#submit(message)
    else if (message.type === 'cancel') this.#cancel(message)
    else if (message.type === 'call') this.#call(message)
    else {
      this.#work.removeCall(message.call)
      if (this.state === 'up') this.#link?.channel.send(message)
    }
    this.#moveOn()
  }

  onMessage(listener: (message: FromEngine) => void): void {
    this.#onMessage = listener
  }

  onClose(listener: (reason: string) => void): void {
    // The first start may have failed before anything could listen.
    void this.gone.then(listener)
  }

  /** Calls back whenever an engine has become ready or is gone. */
  onState(listener: (state: SupervisorState) => void): void {
    this.#onState.push(listener)
  }

  /** Ends the engine and all requests and calls in flight. */
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
        this.telemetry.onExit(reason, this.#isClosing)
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
    switch (message.type) {
      case 'ready':
        return this.#ready(message.info)
      case 'failed':
        this.#failure = message.error.message
        if (this.state === 'starting') this.#tell(message)
        break
      case 'preparing':
      case 'prepared': {
        const entry = this.#work.requests.get(message.id)
        const phase = message.type === 'preparing' ? 'preparing' : 'running'
        if (entry !== undefined) this.#work.move(entry, phase)
        break
      }
      case 'events': {
        const events = this.#work.onEvents(message.events, this.clock.now())
        if (events.length > 0) this.#tell({ type: 'events', events })
        break
      }
      case 'result':
      case 'error': {
        const call = this.#work.onAnswer(message)
        // Without a call, its client has left.
        if (call !== undefined) this.#tell(message, call.name)
        break
      }
      default:
    }
    this.#moveOn()
  }

  #ready(info: EngineInfo): void {
    this.#cancelTimer?.()
    const isBack = this.state === 'restarting'
    this.state = 'up'
    this.#upSince = this.clock.now()
    this.#failedStarts = 0
    this.#failure = undefined
    const { policy, requests } = this.#work
    if (isBack) this.logger.warn({ requests: requests.size }, 'the engine is back')
    this.#tell({ type: 'ready', info })
    this.#slots = info.limits.slots
    if (policy !== undefined) this.#link?.channel.send(policy)
    this.#moveOn()
    for (const listener of this.#onState) listener(this.state)
  }

  /** Sends the requests and calls that the engine may have now, and updates the watch for hangs. */
  #moveOn(): void {
    const now = this.clock.now()
    let isMore = this.state === 'up'
    // If a message cannot be sent, others may have their turn.
    while (isMore) {
      isMore = false
      for (const message of this.#work.take(now)) isMore = !this.#pass(message) || isMore
    }
    this.#hangs.update(this.state === 'up' ? this.#work.debts() : nothingOwed)
  }

  /** Sends a request or a call. One that is too deep or too large for a message fails alone, and false is returned. */
  #pass(message: Submission | Call): boolean {
    try {
      this.#link?.channel.send(message)
      return true
    } catch (cause) {
      const error = CllmError.from(cause)
      if (message.type === 'submit') this.#drop(this.#work.requests.get(message.id)!, error)
      else {
        this.#work.removeCall(message.call)
        this.#tell({ type: 'error', call: message.call, error: error.serialize() })
      }
      return false
    }
  }

  #submit({ id, request }: Submission): void {
    const { requests } = this.#work
    const limit = this.options.maxQueuedRequests
    const mayWait = limit + this.#slots
    let refusal: CllmError | undefined
    if (this.#isClosing) refusal = takesNone()
    else if (requests.has(id)) refusal = duplicate(id)
    else if (requests.size >= mayWait && (this.state !== 'up' || this.#work.isHolding)) {
      refusal = new CllmError('queue_full', `${limit} requests are waiting, which is the limit`)
    }
    if (refusal === undefined) {
      const timeoutMs = request.timeoutMs ?? this.options.requestTimeoutMs
      const seeded = withSeed({ ...request, ...defined({ timeoutMs }) }, this.random)
      const entry = new EngineRequest(id, seeded, this.clock.now())
      const next = this.#work.add(entry, this.state === 'up')
      if (next !== undefined) this.#pass(next)
    } else this.#tell({ type: 'events', events: [{ id, event: failureOf(refusal) }] })
  }

  #cancel(message: ToEngine & { readonly type: 'cancel' }): void {
    const { id, reason = cancelReason } = message
    const entry = this.#work.requests.get(id)
    if (entry === undefined) return
    if (entry.phase === 'held') return this.#drop(entry, new CllmError('cancelled', reason))
    entry.cancelReason ??= reason
    this.#link?.channel.send(message)
  }

  #call(message: Call): void {
    const { call, name } = message
    if (name === 'close') {
      this.#isClosing = true
      for (const entry of this.#work.requests.values()) {
        if (entry.phase === 'held') this.#drop(entry, shuttingDown())
      }
      if (this.state !== 'up') return this.#tell({ type: 'result', call, value: null })
    }
    const answer = this.#work.addCall(message, this.state !== 'restarting')
    if (answer !== undefined) this.#tell(answer)
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
    if (this.state === 'starting' || this.#isClosing) return this.#end(why)
    const wasUp = this.state === 'up'
    if (!wasUp && ++this.#failedStarts >= this.options.maxStarts) return this.#end(why)
    this.state = 'restarting'
    this.restarts++
    const now = this.clock.now()
    const { restartDelaysMs } = this.options
    if (wasUp && now - this.#upSince >= stableMs) this.#deaths = 0
    const delayMs = restartDelaysMs[this.#deaths++] ?? restartDelaysMs.at(-1) ?? 0
    const fields = { reason: why, delayMs, requests: this.#work.requests.size }
    this.logger.error(fields, 'the engine is gone and is started again')
    // Until then nothing else might keep this process alive.
    this.#cancelTimer = this.clock.at(now + delayMs, () => this.#start(), { keepsAlive: true })
    for (const failure of this.#work.onExit(why)) this.#tell(failure)
    this.#moveOn()
  }

  #end(reason: string): void {
    this.state = 'gone'
    this.#hangs.update(nothingOwed)
    this.#cancelTimer?.()
    // Nothing waits any more: clients hear that the channel is closed.
    for (const entry of this.#work.requests.values()) this.#work.remove(entry)
    this.#onGone(reason)
  }

  #drop(entry: EngineRequest, error: CllmError): void {
    this.#tell(this.#work.fail(entry, error))
  }

  #tell(message: FromEngine, call?: EngineCallName): void {
    this.#onMessage(this.telemetry.onAnswer(message, call))
  }
}
