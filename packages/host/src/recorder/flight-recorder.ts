import {
  type Clock,
  type EngineInfo,
  type GenerateRequest,
  type RequestEvent,
  type EngineChange,
  type RecorderStatistics,
  type Recording,
  type RecordedStep,
  type PolicySetting,
} from '@cllm/core'
import type { FromEngine, QueuedRequest } from '../remote/channel.js'
import { type Arrival, type RecordingParts, writeRecording } from './write-recording.js'

/** Limits of the flight recorder. */
export interface RecorderOptions {
  /** Period to keep, in milliseconds; default 600,000 (10 minutes), 0 disables the recorder. */
  readonly windowMs: number
  /** Approximate memory limit in bytes; beyond it, the oldest entries are dropped. Default 16 MiB. */
  readonly maxBytes: number
  /** Called with the recording when an engine crashes; default: not set. */
  readonly onCrash: (recording: Recording) => void
}

/** The defaults of {@link RecorderOptions}. */
export const defaultRecorderOptions: RecorderOptions = Object.freeze({
  windowMs: 600_000,
  maxBytes: 16 * 1024 * 1024,
  onCrash: () => {},
})

/** Bytes that entries take in memory, measured in Node 22 and rounded up. */
const arrivalBytes = 400
const stepBytes = 160
const perBlock = 8
const perChunk = 48
/** The share of the memory limit that is kept when it is exceeded: dropping many entries at once makes that rare. */
const keptShare = 7 / 8
/** Most changes of the engine that are kept. */
const mostChanges = 100

/**
 * Records the last minutes: the arrivals, lengths and shared prefixes of requests, and the composition
 * and duration of each step. It keeps no text and no token. It lives in the parent process, so it
 * survives a crash of the engine.
 */
export class FlightRecorder {
  /** In order of time, as are the steps. */
  readonly #arrivals: Arrival[] = []
  readonly #steps: RecordedStep[] = []
  readonly #changes: EngineChange[] = []
  readonly #live = new Map<string, Arrival>()
  readonly isOn: boolean
  #bytes = 0
  #beginsAt: number
  #info: EngineInfo | undefined
  /** Milliseconds that the engine's clock is ahead of this process's. */
  #engineAheadMs = 0
  /** The active policy. */
  policy: PolicySetting | undefined

  constructor(
    private readonly clock: Clock,
    private readonly options: RecorderOptions,
  ) {
    this.#beginsAt = clock.now()
    this.isOn = options.windowMs > 0
  }

  /** A client submits a request. */
  onArrival(id: string, request: GenerateRequest): void {
    const { priority, deadlineMs, timeoutMs, tenant, session, stepGroup, cache } = request
    const asked = { priority, deadlineMs, timeoutMs, tenant, session, stepGroup, cache }
    const had = request.continued?.tokens.length ?? 0
    const arrival: Arrival = { id, asked, atMs: this.clock.now(), had, tokens: 0, blocks: [] }
    this.#live.set(id, arrival)
    if (!this.isOn) return
    this.#arrivals.push(arrival)
    this.#grow(arrivalBytes)
  }

  /** The engine queued it; after a restart, the next engine does so again. */
  onQueued({ id, maxTokens, blocks }: QueuedRequest): void {
    const arrival = this.#live.get(id)
    if (arrival === undefined || arrival.maxTokens !== undefined) return
    arrival.maxTokens = maxTokens
    if (!this.isOn) return
    arrival.blocks = blocks
    // The blocks of an entry that was dropped meanwhile do not count: nothing would subtract them again.
    if (arrival.atMs >= this.#beginsAt) this.#grow(perBlock * blocks.length)
  }

  /** An event was sent to its client; returns its record. */
  onEvent(id: string, event: RequestEvent): Arrival | undefined {
    const arrival = this.#live.get(id)
    if (arrival === undefined) return undefined
    const { type } = event
    if (type === 'start') arrival.promptTokens = event.promptTokens
    else if (type === 'token') {
      arrival.tokens++
      arrival.firstTokenMs ??= this.clock.now() - arrival.atMs
    } else if (type === 'end' || type === 'error') {
      this.#live.delete(id)
      arrival.endMs = this.clock.now() - arrival.atMs
      arrival.end = type === 'end' ? 'done' : event.error.code
    }
    return arrival
  }

  /** A step was computed. */
  onStep(step: RecordedStep): void {
    if (!this.isOn) return
    this.#steps.push({ ...step, atMs: step.atMs - this.#engineAheadMs })
    this.#grow(bytesOfStep(step))
  }

  /** An engine can take requests. */
  onReady({ info, scheduler, now }: FromEngine & { readonly type: 'ready' }): void {
    this.#info = info
    const aheadMs = now === undefined ? 0 : now - this.clock.now()
    // Below a second, it is the message's delay. Above, the machine slept or its clock was set between the starts of
    // both.
    this.#engineAheadMs = Math.abs(aheadMs) < 1000 ? 0 : aheadMs
    // A later engine gets the active policy at once.
    this.policy ??= scheduler
    this.#changed({ atMs: this.clock.now(), change: 'ready' })
  }

  /**
   * The engine exited. A failed start computes nothing, so it makes no recording, which would displace that of an
   * engine.
   */
  onExit(reason: string): void {
    const wasReady = this.#changes.at(-1)?.change === 'ready'
    this.#changed({ atMs: this.clock.now(), change: 'gone', reason })
    const parts = this.isOn && wasReady ? this.parts(reason) : undefined
    if (parts !== undefined) this.options.onCrash(writeRecording(parts))
  }

  statistics(): RecorderStatistics {
    this.#forget()
    return { arrivals: this.#arrivals.length, steps: this.#steps.length, bytes: this.#bytes }
  }

  /** The data of a recording; undefined before the first engine is ready. */
  parts(reason: string): RecordingParts | undefined {
    if (this.#info === undefined) return undefined
    this.#forget()
    const begin = this.#beginsAt
    const older = [...this.#live.values()].filter(({ atMs }) => atMs < begin)
    return {
      reason,
      beginsAt: begin,
      endsAt: this.clock.now(),
      aheadMs: this.clock.wall() - this.clock.now(),
      info: this.#info,
      policy: this.policy ?? { policy: '', options: {} },
      arrivals: [...older, ...this.#arrivals],
      steps: [...this.#steps],
      changes: this.#changes.filter(({ atMs }) => atMs >= begin),
    }
  }

  #changed(change: EngineChange): void {
    this.#changes.push(change)
    if (this.#changes.length > mostChanges) this.#changes.shift()
  }

  #grow(bytes: number): void {
    this.#bytes += bytes
    const { maxBytes } = this.options
    if (this.#bytes > maxBytes) this.#forget(keptShare * maxBytes)
  }

  /** Drops entries beyond the period, and the oldest ones until no more than these bytes are left. */
  #forget(mostBytes = this.options.maxBytes): void {
    this.#beginsAt = Math.max(this.#beginsAt, this.clock.now() - this.options.windowMs)
    let arrivals = 0
    let steps = 0
    for (;;) {
      const arrival = this.#arrivals[arrivals]
      const step = this.#steps[steps]
      const oldest = Math.min(arrival?.atMs ?? Infinity, step?.atMs ?? Infinity)
      const isOver = this.#bytes > mostBytes
      if (oldest === Infinity || (oldest >= this.#beginsAt && !isOver)) break
      if (step?.atMs === oldest) {
        this.#bytes -= bytesOfStep(step)
        steps++
      } else {
        this.#bytes -= arrivalBytes + perBlock * arrival!.blocks.length
        arrivals++
      }
      if (isOver) this.#beginsAt = Math.max(this.#beginsAt, oldest + 0.001)
    }
    this.#arrivals.splice(0, arrivals)
    this.#steps.splice(0, steps)
  }
}

const bytesOfStep = ({ chunks }: RecordedStep): number => stepBytes + perChunk * chunks.length
