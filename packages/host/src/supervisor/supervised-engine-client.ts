import type { Recording, Services } from '@cllm/core'
import { systemClock, systemRandom, silentLogger, CllmError } from '@cllm/core'
import { TelemetryTap } from '../recorder/telemetry-tap.js'
import type { RecorderOptions } from '../recorder/flight-recorder.js'
import { defaultRecorderOptions, FlightRecorder } from '../recorder/flight-recorder.js'
import { noRecorder, type RecordingParts, writeRecording } from '../recorder/write-recording.js'
import { EngineSupervisor, type SupervisorState } from './engine-supervisor.js'
import { RemoteEngineClient } from '../remote/remote-engine-client.js'
import type { StartEngine, SupervisorOptions } from './supervisor-options.js'
import { defaultSupervisorOptions } from './supervisor-options.js'

/**
 * Parts of a {@link SupervisedEngineClient}. All but `start` have defaults; those of the services are real time, the
 * operating system's generator of random numbers, for ids and seeds, and a logger that is silent.
 */
export interface SupervisedEngineParts extends Partial<Services> {
  readonly start: StartEngine
  /** Default: {@link defaultSupervisorOptions}. */
  readonly options?: Partial<SupervisorOptions>
  /** Default: {@link defaultRecorderOptions}. */
  readonly recorder?: Partial<RecorderOptions>
}

/**
 * An engine in a process that may crash: it is restarted, and no request is lost. Waiting requests keep
 * their places; running requests continue after the last token that their client has. The next engine
 * samples the same tokens, since they depend only on the tokens so far and the seed.
 *
 * When an engine crashes, the requests without a sampled token are suspects: the next engine gets them
 * one at a time, and a request that crashes it while running alone fails with `engine_crashed`.
 * Requests with sampled tokens become suspects after a second crash. A request whose client has left is
 * not continued. When the engine cannot be restarted, all requests fail with `engine_unavailable`.
 */
export class SupervisedEngineClient extends RemoteEngineClient {
  /** Resolves when there is no engine and will be none, with the reason. */
  readonly gone: Promise<string>
  readonly #supervisor: EngineSupervisor
  readonly #recorder: FlightRecorder

  constructor({ start, options, ...parts }: SupervisedEngineParts) {
    const { clock = systemClock, random = systemRandom, logger = silentLogger } = parts
    const all = { ...defaultSupervisorOptions, ...options }
    const recorder = new FlightRecorder(clock, { ...defaultRecorderOptions, ...parts.recorder })
    const tap = new TelemetryTap(recorder)
    const supervisor = new EngineSupervisor(start, all, clock, random, logger, tap)
    super(supervisor, random)
    this.gone = supervisor.gone
    this.#supervisor = supervisor
    this.#recorder = recorder
  }

  /** The state of the engine. */
  get state(): SupervisorState {
    return this.#supervisor.state
  }

  /** Calls back with the state whenever an engine has become ready or is gone. */
  onState(listener: (state: SupervisorState) => void): void {
    this.#supervisor.onState(listener)
  }

  /** Number of restarts. */
  get restarts(): number {
    return this.#supervisor.restarts
  }

  /** The flight recording. Throws `unsupported` where it is off, and `engine_unavailable`. */
  async recording(): Promise<Recording> {
    return writeRecording(await this.recordingParts())
  }

  /** The data of {@link recording}, to be joined with those of other engines. Throws the same errors. */
  async recordingParts(): Promise<RecordingParts> {
    if (!this.#recorder.isOn) throw noRecorder()
    await this.ready()
    await this.getScheduler().catch(() => {})
    const parts = this.#recorder.parts('asked')
    if (parts !== undefined) return parts
    throw new CllmError('engine_unavailable', 'No engine has been ready yet')
  }

  /** Ends the engine at once, for good. */
  kill(): void {
    this.#supervisor.kill()
  }
}
