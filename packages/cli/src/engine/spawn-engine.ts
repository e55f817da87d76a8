import { fork, type ChildProcess } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import {
  CllmError,
  defined,
  type AdapterSource,
  type EngineInfo,
  type Logger,
  type ModelInfo,
  type RouterPolicy,
} from '@cllm/core'
import {
  type EngineLink,
  type LoadedModel,
  type RecorderOptions,
  SupervisedEngineClient,
  type SupervisorOptions,
} from '@cllm/host'
import { compiledFolder } from '../models/cache-folder.js'
import { killAtExit } from '../process/stop-signal.js'
import {
  type EngineSettings,
  type LogLevelMessage,
  type StartMessage,
  llamaCpp,
  childLink,
} from './process-channel.js'
import { threadPool } from './available.js'

/** An engine in a separate process, which is restarted when it dies. */
export interface EngineProcess {
  readonly client: SupervisedEngineClient
  readonly info: EngineInfo
  /** Resolves with the reason when the engine is gone and will not be restarted. */
  readonly ended: Promise<string>
  /** Kills the process, without a restart. */
  readonly kill: () => void
  /** Changes the log level, also for later restarts. */
  readonly setLogLevel: (level: string) => void
  /** The id of the running process; undefined while there is none. */
  readonly pid: () => number | undefined
}

/** How an engine's process is started. */
export interface SpawnOptions {
  readonly env: NodeJS.ProcessEnv
  /** Cancels the start, which then throws `cancelled`; without effect once the engine is ready. */
  readonly signal?: AbortSignal
  /** Logs deaths and restarts. Default: silent. */
  readonly logger?: Logger
  readonly supervisor?: Partial<SupervisorOptions>
  readonly recorder?: Partial<RecorderOptions>
  /** The adapters of each process, asked for when it starts. Default: those of the settings. */
  readonly adapters?: () => readonly AdapterSource[]
}

const entry = fileURLToPath(new URL('engine-child.js', import.meta.url))

/**
 * Starts a process with an engine and resolves when the model is loaded and warmed up. The engine
 * needs a process of its own to have its own thread pool. A process that dies later is replaced;
 * see `SupervisedEngineClient`.
 *
 * @throws what the engine fails with at its start, and `cancelled` when the signal fires first
 */
export async function spawnEngine(
  settings: EngineSettings,
  { env, signal, logger, supervisor, recorder, adapters }: SpawnOptions,
): Promise<EngineProcess> {
  throwIfCancelled(signal)
  let child: ChildProcess | undefined
  let { log, skipsAdapters = false } = settings
  const { maxQueuedRequests, requestTimeoutMs } = settings.options
  const start = (): EngineLink => {
    const own = { adapters: adapters?.() ?? settings.adapters ?? [], skipsAdapters }
    const started = startChild({ ...settings, ...own, log }, env)
    // After the first start, a missing file of an adapter must not end the service.
    skipsAdapters = true
    child = started
    started.once('exit', () => (child = undefined))
    return childLink(started, logger)
  }
  const client = new SupervisedEngineClient({
    start,
    // These limits also apply while there is no engine.
    options: { ...defined({ maxQueuedRequests, requestTimeoutMs }), ...supervisor },
    ...defined({ logger, recorder }),
  })
  // The child ends when its parent ends, but not while it hangs.
  const hasEnded = killAtExit(() => void child?.kill('SIGKILL'))
  void client.gone.then(hasEnded)
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
  } catch (error) {
    // The process has ended, and its memory is free, before the caller gets the failure.
    kill()
    await client.gone
    throwIfCancelled(signal)
    throw error
  } finally {
    signal?.removeEventListener('abort', kill)
  }
}

function throwIfCancelled(signal: AbortSignal | undefined): void {
  if (signal?.aborted !== true) return
  const message = 'The start of the engine was cancelled'
  throw new CllmError('cancelled', message, { cause: signal.reason })
}

/** An engine's process as a model of a pool; closing it ends the process. */
export function asLoaded({ client, info, ended, kill }: EngineProcess): LoadedModel {
  const bytesOf = ({ details }: ModelInfo) => details?.memoryBytes ?? 0
  const draftBytes = info.draftModel === undefined ? 0 : bytesOf(info.draftModel)
  return {
    client,
    // Weights on a GPU take no RAM.
    memoryBytes: info.capabilities.gpu === false ? bytesOf(info.model) + draftBytes : 0,
    gone: ended,
    async close() {
      try {
        await client.close()
      } finally {
        kill()
        await ended
      }
    },
  }
}

/** Other backends have Node's usual thread pool. */
const threadPoolOf = ({ backendName, backend }: EngineSettings): NodeJS.ProcessEnv =>
  backendName === llamaCpp ? { UV_THREADPOOL_SIZE: threadPool(backend['gpu']) } : {}

/**
 * Node flags in place of the parent's, such as a debugger's port. A step makes little garbage: V8's young generation of
 * 16 MiB would only keep more memory, and one thread is enough for V8's work in the background.
 */
const smallHeap = ['--max-semi-space-size=1', '--v8-pool-size=1']

/** glibc otherwise keeps memory for each thread; the threads that compute allocate none. */
const oneArena: NodeJS.ProcessEnv = { MALLOC_ARENA_MAX: '1' }

function startChild(settings: EngineSettings, env: NodeJS.ProcessEnv): ChildProcess {
  const child = fork(entry, {
    env: {
      ...oneArena,
      ...threadPoolOf(settings),
      // of its own: with other flags, V8 refuses code that the parent's has compiled
      NODE_COMPILE_CACHE: `${compiledFolder({ env })}-engine`,
      ...env,
    },
    execArgv: smallHeap,
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  })
  // Without a process there is no `exit`; the closed channel tells the supervisor.
  child.on('error', () => {})
  if (child.pid !== undefined)
    child.send({ type: 'start', settings } satisfies StartMessage, () => {})
  return child
}

/** Several engines of one model as one, which hold `memoryBytes` of RAM; closing it ends their processes. */
export async function joinEngines(
  engines: readonly EngineProcess[],
  router: RouterPolicy,
  logger: Logger,
  memoryBytes: number,
): Promise<LoadedModel> {
  // Imported here, as a single engine needs no module of a cluster.
  const { joinLocalWorkers } = await import('@cllm/cluster')
  const { client, gone } = joinLocalWorkers(
    engines.map((engine, index) => ({
      id: `engine-${index + 1}`,
      client: engine.client,
      info: engine.info,
      gone: engine.ended,
      onUp: (listener) => engine.client.onState((state) => listener(state === 'up')),
    })),
    { router, logger },
  )
  const models = engines.map(asLoaded)
  return {
    client,
    memoryBytes,
    gone,
    async close() {
      await client.close().catch(() => {})
      await Promise.all(models.map(async (model) => await model.close()))
    },
  }
}
