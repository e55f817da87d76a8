import type { RequestEvent, Usage, EngineStatistics, PolicySetting } from '@cllm/core'
import { defined, Counters, endState } from '@cllm/core'
import type { FromEngine, ToEngine, EngineCallName } from '../remote/channel.js'
import { pastParts, sumStatistics } from '../statistics/sum-statistics.js'
import type { FlightRecorder } from './flight-recorder.js'
import type { Arrival } from './write-recording.js'

/** The statistics that engines are asked for, as their steps do not contain them. */
type Asked = Pick<
  EngineStatistics,
  'policyFaults' | 'interruptedSteps' | 'partings' | 'cache' | 'encodes'
>

/**
 * Sees the messages on both sides of a supervisor: its counters survive the replacement of an engine,
 * and the flight recorder sees what clients see. Exactly the events sent to clients are counted.
 */
export class TelemetryTap {
  readonly #counters = new Counters()
  /** Milliseconds of work of the engines that have exited. */
  #busyMsBefore = 0
  #before: Asked = { policyFaults: 0, interruptedSteps: 0 }
  /** The sum over all engines, by their last answer. */
  #last = this.#before

  constructor(private readonly recorder: FlightRecorder) {}

  /** The name of the active policy. */
  get policy(): string | undefined {
    return this.recorder.policy?.policy
  }

  /** An engine sent a message. */
  onEngineMessage(message: FromEngine): void {
    if (message.type === 'ready') this.recorder.onReady(message)
    if (message.telemetry === undefined) return
    const { steps, queued, busyMs } = message.telemetry
    for (const one of queued) this.recorder.onQueued(one)
    for (const step of steps) {
      this.#counters.countStep(step)
      this.recorder.onStep(step)
    }
    this.#counters.busyMs = this.#busyMsBefore + busyMs
  }

  /** An engine exited, on its own or because it was closed (`isIntended`). */
  onExit(reason: string, isIntended: boolean): void {
    this.#busyMsBefore = this.#counters.busyMs
    this.#before = { ...this.#last, ...pastParts(this.#last) }
    if (!isIntended) this.recorder.onExit(reason)
  }

  /** A client sends a message. */
  onClientMessage(message: ToEngine): void {
    if (message.type === 'submit') this.recorder.onArrival(message.id, message.request)
  }

  /**
   * A message goes to the clients; returns it, statistics with the counters of all engines so far.
   *
   * @param call the name of the call that it answers
   */
  onAnswer(message: FromEngine, call?: EngineCallName): FromEngine {
    if (message.type === 'events') {
      for (const { id, event } of message.events) {
        const known = this.recorder.onEvent(id, event)
        if (event.type === 'end') {
          const { usage, timings } = event
          this.#counters.countRequest('done', usage, timings.preemptions, known?.had)
        } else if (event.type === 'error') this.#countFailure(event, known)
      }
    }
    if (message.type !== 'result') return message
    if (call === 'getScheduler' || call === 'setScheduler') {
      this.recorder.policy = message.value as PolicySetting
    }
    if (call !== 'statistics') return message
    return { ...message, value: this.#statistics(message.value as EngineStatistics) }
  }

  #countFailure(event: RequestEvent & { readonly type: 'error' }, known?: Arrival): void {
    const { promptTokens = 0, tokens = 0, had = 0 } = known ?? {}
    const seen: Usage = { promptTokens, cachedTokens: 0, generatedTokens: had + tokens }
    const { usage = seen, preemptions = 0 } = event
    this.#counters.countRequest(endState(event.error), usage, preemptions, had)
  }

  #statistics(statistics: EngineStatistics): EngineStatistics {
    const { policyFaults, interruptedSteps, partings, cache, encodes } = statistics
    const asked = { policyFaults, interruptedSteps, ...defined({ partings, cache, encodes }) }
    this.#last = sumStatistics<Asked>(asked, this.#before)
    return {
      ...statistics,
      ...this.#counters.snapshot(),
      ...this.#last,
      ...(this.recorder.isOn ? { recorder: this.recorder.statistics() } : {}),
    }
  }
}
