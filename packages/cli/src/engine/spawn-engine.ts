import { fork, type ChildProcess } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import {
  type EngineInfo,
  type EngineLink,
  type Logger,
  type RecorderOptions,
  SupervisedEngineClient,
  type SupervisorOptions,
} from '@cllm/core'
import type { EngineSettings, LogLevelMessage, StartMessage } from './engine-settings.js'
import { childChannel } from './process-channel.js'
import { threadPool } from './thread-pool.js'

/** An engine in a process of its own, which is started again when it dies. */
export interface EngineProcess {
  readonly client: SupervisedEngineClient
  readonly info: EngineInfo
  /** Resolves when there is no engine and will be none, with why. */
  readonly ended: Promise<string>
  /** Ends it at once, for good. */
  readonly kill: () => void
  /** Changes what it logs, also when it is started again. */
  readonly setLogLevel: (level: string) => void
  /** The number of the process that runs; undefined while there is none. */
  readonly pid: () => number | undefined
}

/** How an engine's process is started. */
export interface SpawnOptions {
  readonly env: NodeJS.ProcessEnv
  /** Ends the start. */
  readonly signal?: AbortSignal
  /** Told of deaths and restarts; default: silent. */
  readonly logger?: Logger
  readonly supervisor?: Partial<SupervisorOptions>
  readonly recorder?: Partial<RecorderOptions>
}

const entry = fileURLToPath(new URL('engine-child.js', import.meta.url))

/**
 * Starts a process with an engine and resolves when the model is loaded and warmed up. It is started
 * here directly, since only a process of its own can have its own thread pool. One that dies later is
 * replaced; see `SupervisedEngineClient`.
 */
export async function spawnEngine(
  settings: EngineSettings,
  { env, signal, logger, supervisor, recorder }: SpawnOptions,
): Promise<EngineProcess> {
  let child: ChildProcess | undefined
  let { log } = settings
  // Between two children nothing else may keep this process alive.
  let alive: NodeJS.Timeout | undefined
  const start = (): EngineLink => {
    clearInterval(alive)
    const started = startChild({ ...settings, log }, env)
    child = started
    started.once('exit', () => {
      child = undefined
      alive = setInterval(() => {}, 60_000)
    })
    return { channel: childChannel(started), kill: () => void started.kill('SIGKILL') }
  }
  const client = new SupervisedEngineClient({
    start,
    options: { ...limitsOf(settings), ...supervisor },
    ...(logger === undefined ? {} : { logger }),
    ...(recorder === undefined ? {} : { recorder }),
  })
  void client.gone.then(() => clearInterval(alive))
  const kill = (): void => client.kill()
  const setLogLevel = (level: string): void => {
    log = { ...log, level }
    if (child?.connected === true)
      child.send({ type: 'log-level', level } satisfies LogLevelMessage)
  }
  signal?.addEventListener('abort', kill, { once: true })
  try {
    const info = await client.ready()
    return { client, info, ended: client.gone, kill, setLogLevel, pid: () => child?.pid }
  } finally {
    signal?.removeEventListener('abort', kill)
  }
}

/** What holds for requests while there is no engine, too. */
function limitsOf({ options }: EngineSettings): Partial<SupervisorOptions> {
  const { maxQueuedRequests, requestTimeoutMs } = options
  return {
    ...(maxQueuedRequests === undefined ? {} : { maxQueuedRequests }),
    ...(requestTimeoutMs === undefined ? {} : { requestTimeoutMs }),
  }
}

function startChild(settings: EngineSettings, env: NodeJS.ProcessEnv): ChildProcess {
  const child = fork(entry, {
    env: { UV_THREADPOOL_SIZE: threadPool(settings.backend.gpu), ...env },
    // Node's flags are the parent's business, such as a debugger's port.
    execArgv: [],
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  })
  child.send({ type: 'start', settings } satisfies StartMessage)
  return child
}
