import { systemClock } from '../clock/system-clock.js'
import { systemRandom } from '../clock/system-random.js'
import type { Clock, Random } from '../contracts/clock.js'
import { silentLogger, type Logger } from '../contracts/logger.js'
import type { Recording } from '../contracts/recording.js'
import { CllmError } from '../errors/cllm-error.js'
import { EngineWatch } from '../recorder/engine-watch.js'
import { FlightRecorder } from '../recorder/flight-recorder.js'
import { defaultRecorderOptions, type RecorderOptions } from '../recorder/recorder-options.js'
import { EngineSupervisor, type StartEngine, type SupervisorState } from './engine-supervisor.js'
import { RemoteEngineClient } from './remote-engine-client.js'
import { defaultSupervisorOptions, type SupervisorOptions } from './supervisor-options.js'

/** What an engine is supervised with; all has defaults but how it is started. */
export interface SupervisedEngineParts {
  readonly start: StartEngine
  /** Default: {@link defaultSupervisorOptions}. */
  readonly options?: Partial<SupervisorOptions>
  /** Default: {@link defaultRecorderOptions}. */
  readonly recorder?: Partial<RecorderOptions>
  /** Default: real time. */
  readonly clock?: Clock
  /** For ids and seeds; default: the operating system's generator. */
  readonly random?: Random
  /** Default: silent. */
  readonly logger?: Logger
}

/**
 * An engine in a process that may die: it is started again, and no request is lost. Those that wait
 * keep their places, those that ran go on after the last token that their client has: the next engine
 * draws what the first one would have drawn, since that depends on the tokens and the seed alone.
 *
 * Requests that two engines died of, perhaps, are computed again one at a time; the one that a third
 * engine dies of alone fails with `engine_crashed`. When the engine cannot be started any more all
 * fail with `engine_unavailable`.
 */
export class SupervisedEngineClient extends RemoteEngineClient {
  /** Resolves when there is no engine and will be none, with the reason. */
  readonly gone: Promise<string>
  readonly #supervisor: EngineSupervisor
  readonly #recorder: FlightRecorder
  readonly #watch: EngineWatch

  constructor({ start, options, ...parts }: SupervisedEngineParts) {
    const { clock = systemClock, random = systemRandom, logger = silentLogger } = parts
    const all = { ...defaultSupervisorOptions, ...options }
    const recorder = new FlightRecorder(clock, { ...defaultRecorderOptions, ...parts.recorder })
    const watch = new EngineWatch(recorder)
    const supervisor = new EngineSupervisor(watch.starting(start), all, clock, random, logger)
    let end: (reason: string) => void
    const gone = new Promise<string>((resolve) => (end = resolve))
    super(
      watch.between({
        send: (message) => supervisor.send(message),
        onMessage: (listener) => supervisor.onMessage(listener),
        onClose: (listener) =>
          supervisor.onClose((reason) => {
            end(reason)
            listener(reason)
          }),
      }),
      random,
    )
    this.gone = gone
    this.#supervisor = supervisor
    this.#recorder = recorder
    this.#watch = watch
  }

  /** How the engine is. */
  get state(): SupervisorState {
    return this.#supervisor.state
  }

  /** How often it was started again. */
  get restarts(): number {
    return this.#supervisor.restarts
  }

  /** What the flight recorder has. Throws `unsupported` where it is off, and `engine_unavailable`. */
  async recording(): Promise<Recording> {
    if (!this.#recorder.isOn) {
      throw new CllmError('unsupported', 'This server has no flight recorder: it is switched off')
    }
    await this.ready()
    await this.getScheduler().catch(() => {})
    const recording = this.#recorder.recording('asked')
    if (recording !== undefined) return recording
    throw new CllmError('engine_unavailable', 'No engine has been ready yet')
  }

  /** Ends the engine at once, for good. */
  kill(): void {
    this.#watch.close()
    this.#supervisor.kill()
  }
}
