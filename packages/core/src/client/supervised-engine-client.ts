import { systemClock } from '../clock/system-clock.js'
import { systemRandom } from '../clock/system-random.js'
import type { Clock, Random } from '../contracts/clock.js'
import { silentLogger, type Logger } from '../contracts/logger.js'
import { EngineSupervisor, type StartEngine, type SupervisorState } from './engine-supervisor.js'
import { RemoteEngineClient } from './remote-engine-client.js'
import { defaultSupervisorOptions, type SupervisorOptions } from './supervisor-options.js'

/** What an engine is supervised with; all has defaults but how it is started. */
export interface SupervisedEngineParts {
  readonly start: StartEngine
  /** Default: {@link defaultSupervisorOptions}. */
  readonly options?: Partial<SupervisorOptions>
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

  constructor({ start, options, ...parts }: SupervisedEngineParts) {
    const { clock = systemClock, random = systemRandom, logger = silentLogger } = parts
    const all = { ...defaultSupervisorOptions, ...options }
    const supervisor = new EngineSupervisor(start, all, clock, random, logger)
    let end: (reason: string) => void
    const gone = new Promise<string>((resolve) => (end = resolve))
    super(
      {
        send: (message) => supervisor.send(message),
        onMessage: (listener) => supervisor.onMessage(listener),
        onClose: (listener) =>
          supervisor.onClose((reason) => {
            end(reason)
            listener(reason)
          }),
      },
      random,
    )
    this.gone = gone
    this.#supervisor = supervisor
  }

  /** How the engine is. */
  get state(): SupervisorState {
    return this.#supervisor.state
  }

  /** How often it was started again. */
  get restarts(): number {
    return this.#supervisor.restarts
  }

  /** Ends the engine at once, for good. */
  kill(): void {
    this.#supervisor.kill()
  }
}
