import type {
  Engine,
  PluginRegistry,
  AddressedEvent,
  EngineObserver,
  RecordedStep,
  Sequence,
  StepRecord,
} from '@cllm/core'
import { CLOCK, defined, blockSize, toRecordedStep } from '@cllm/core'
import type { Channel, FromEngine, ToEngine, QueuedRequest } from './channel.js'
import { CallServer } from './engine-calls.js'
import { controlOf } from '../client/engine-control.js'

/** Facts about an engine that the engine does not know. */
export interface EngineHostOptions {
  /** See `EngineInfo`. Default: none. */
  readonly fingerprint?: string | undefined
}

/**
 * Serves an engine over a channel: the other end of {@link RemoteEngineClient}. All events of a step
 * are one message; before a request is prepared, a message names it, so that the parent knows
 * what the engine was working on if it crashes.
 */
export function hostEngine(
  engine: Engine,
  registry: PluginRegistry,
  channel: Channel<FromEngine, ToEngine>,
  { fingerprint }: EngineHostOptions = {},
): void {
  const control = controlOf(engine, registry)
  const heartbeat = new Heartbeat(channel, fingerprint)
  engine.observe(heartbeat)
  const calls = new CallServer(control, (answer) => heartbeat.send(answer))
  channel.onMessage((message) => {
    if (message.type === 'submit') engine.submit(message.id, message.request)
    else if (message.type === 'cancel') engine.cancel(message.id, message.reason)
    else if (message.type === 'leave') calls.leave(message.call)
    else void calls.make(message)
  })
  channel.onClose(() => void engine.close())
  const { name: policy, options = {} } = engine.scheduler().policy
  const info = { ...engine.info(), ...defined({ fingerprint }) }
  const now = engine.features.get(CLOCK).now()
  heartbeat.send({ type: 'ready', info, scheduler: { policy, options }, now })
}

/** Milliseconds between two messages about tokenizing. */
const tokenizingMs = 1000

/**
 * Sends what an engine does to its parent: the events of a step as one message, with the steps and requests
 * since the last message. Without events it still reports progress: long texts being tokenized and the
 * request being prepared, which take no forward pass, and steps without tokens.
 */
export class Heartbeat implements EngineObserver {
  #isSilent = false
  #tokenizingAt = -Infinity
  #steps: RecordedStep[] = []
  #queued: QueuedRequest[] = []
  #busyMs = 0

  /**
   * @param parent gets the messages
   * @param fingerprint added to the `start` event of each request, if known
   */
  constructor(
    private readonly parent: Pick<Channel<FromEngine, ToEngine>, 'send'>,
    private readonly fingerprint?: string,
  ) {}

  /** Sends a message, and what was noted since the last one. */
  send(message: FromEngine): void {
    if (this.#steps.length === 0 && this.#queued.length === 0) return this.parent.send(message)
    const telemetry = { steps: this.#steps, queued: this.#queued, busyMs: this.#busyMs }
    this.#steps = []
    this.#queued = []
    this.parent.send({ ...message, telemetry })
  }

  onQueued({ id, maxTokens, promptTokens, chain }: Sequence): void {
    const blocks = chain.hashes.slice(0, Math.floor(promptTokens / blockSize))
    this.#queued.push({ id, maxTokens, blocks })
  }

  onTokenized(now: number): void {
    if (now < this.#tokenizingAt + tokenizingMs) return
    this.#tokenizingAt = now
    this.send({ type: 'tokenizing' })
  }

  onPreparing({ id }: Sequence): void {
    this.send({ type: 'preparing', id })
  }

  onAdmitted({ id }: Sequence): void {
    this.send({ type: 'prepared', id })
  }

  onStepStart(): void {
    if (this.#isSilent) this.send({ type: 'step' })
    this.#isSilent = true
  }

  onTurn(durationMs: number, step: StepRecord | undefined): void {
    this.#busyMs += durationMs
    if (step !== undefined) this.#steps.push(toRecordedStep(step))
  }

  onEvents(events: readonly AddressedEvent[]): void {
    const { fingerprint } = this
    const given: AddressedEvent[] = []
    for (const { id, event } of events) {
      // `start` and `error` also come without a step.
      if (event.type !== 'start' && event.type !== 'error') this.#isSilent = false
      const isTold = event.type === 'start' && fingerprint !== undefined
      given.push(isTold ? { id, event: { ...event, fingerprint } } : { id, event })
    }
    this.send({ type: 'events', events: given })
  }
}
