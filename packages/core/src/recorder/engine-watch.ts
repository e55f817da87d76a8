import type { Channel, FromEngine, ToEngine } from '../client/channel.js'
import type { StartEngine } from '../client/engine-supervisor.js'
import type { AddressedEvent, Usage } from '../contracts/engine-client.js'
import type { EngineStatistics } from '../contracts/engine-statistics.js'
import type { PolicySetting } from '../contracts/scheduler-info.js'
import { Counters, endState } from '../engine/counters.js'
import type { FlightRecorder } from './flight-recorder.js'

/**
 * Stands on both sides of a supervisor and writes down what passes: its counters go on when an engine
 * is replaced, and the flight recorder sees what clients see. Whatever a client was told is counted,
 * and nothing else is.
 */
export class EngineWatch {
  readonly #counters = new Counters()
  /** Of the engines that are gone. */
  #before = { busyMs: 0, policyFaults: 0 }
  #policyFaults = 0
  #isClosing = false
  /** Calls whose answers are of interest. */
  readonly #calls = new Map<number, string>()

  constructor(private readonly recorder: FlightRecorder) {}

  /** Starts engines, and hears what they tell. */
  starting(start: StartEngine): StartEngine {
    return () => {
      const { channel, kill } = start()
      const listening: Channel<ToEngine, FromEngine> = {
        send: (message) => channel.send(message),
        onMessage: (listener) =>
          channel.onMessage((message) => {
            this.#told(message)
            listener(message)
          }),
        onClose: (listener) =>
          channel.onClose((reason) => {
            this.#gone(reason)
            listener(reason)
          }),
      }
      return { channel: listening, kill }
    }
  }

  /** The way between clients and whatever engine there is. */
  between(channel: Channel<ToEngine, FromEngine>): Channel<ToEngine, FromEngine> {
    return {
      send: (message) => {
        this.#asked(message)
        channel.send(message)
      },
      onMessage: (listener) => channel.onMessage((message) => listener(this.#answered(message))),
      onClose: (listener) => channel.onClose(listener),
    }
  }

  /** From now on an engine that ends does so because it is told to. */
  close(): void {
    this.#isClosing = true
  }

  #told(message: FromEngine): void {
    if (message.type === 'ready') this.recorder.ready(message.info, message.scheduler)
    if (message.news === undefined) return
    const { steps, queued, busyMs } = message.news
    for (const one of queued) this.recorder.queued(one)
    for (const step of steps) {
      this.#counters.countStep(step)
      this.recorder.stepped(step)
    }
    this.#counters.busyMs = this.#before.busyMs + busyMs
  }

  #gone(reason: string): void {
    this.#before = { busyMs: this.#counters.busyMs, policyFaults: this.#policyFaults }
    if (!this.#isClosing) this.recorder.gone(reason)
  }

  #asked(message: ToEngine): void {
    if (message.type === 'submit') this.recorder.arrived(message.id, message.request)
    else if (message.type === 'call') {
      if (message.name === 'close') this.#isClosing = true
      if (isOfInterest(message.name)) this.#calls.set(message.call, message.name)
    }
  }

  #answered(message: FromEngine): FromEngine {
    if (message.type === 'events') for (const event of message.events) this.#heard(event)
    if (message.type !== 'result' && message.type !== 'error') return message
    const name = this.#calls.get(message.call)
    this.#calls.delete(message.call)
    if (name === undefined || message.type === 'error') return message
    if (name !== 'statistics') {
      this.recorder.policySet(message.value as PolicySetting)
      return message
    }
    return { ...message, value: this.#statistics(message.value as EngineStatistics) }
  }

  #heard({ id, event }: AddressedEvent): void {
    const { recorder } = this
    if (event.type === 'token') recorder.drew(id)
    else if (event.type === 'start') recorder.started(id, event.promptTokens)
    else if (event.type === 'end') {
      recorder.ended(id, 'done')
      this.#counters.countRequest('done', event.usage, event.timings.preemptions)
    } else {
      const known = recorder.ended(id, event.error.code)
      const { promptTokens = 0, tokens = 0 } = known ?? {}
      const seen: Usage = { promptTokens, cachedTokens: 0, generatedTokens: tokens }
      const { usage = seen, preemptions = 0 } = event
      this.#counters.countRequest(endState(event.error), usage, preemptions)
    }
  }

  #statistics(statistics: EngineStatistics): EngineStatistics {
    this.#policyFaults = this.#before.policyFaults + statistics.policyFaults
    return {
      ...statistics,
      ...this.#counters.snapshot(),
      policyFaults: this.#policyFaults,
      ...(this.recorder.isOn ? { recorder: this.recorder.statistics() } : {}),
    }
  }
}

const isOfInterest = (name: string): boolean =>
  name === 'statistics' || name === 'getScheduler' || name === 'setScheduler'
