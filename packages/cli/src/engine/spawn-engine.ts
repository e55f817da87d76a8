import { fork, type ChildProcess } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { RemoteEngineClient, systemRandom, type EngineInfo } from '@cllm/core'
import type { EngineSettings, StartMessage } from './engine-settings.js'
import { childChannel } from './process-channel.js'

/** An engine in a process of its own. */
export interface EngineProcess {
  readonly client: RemoteEngineClient
  readonly info: EngineInfo
  /** Resolves when the process has ended, with how. */
  readonly ended: Promise<string>
  /** Ends it at once. */
  readonly kill: () => void
}

/** How an engine's process is started. */
export interface SpawnOptions {
  readonly env: NodeJS.ProcessEnv
  /** Ends the start. */
  readonly signal?: AbortSignal
}

const entry = fileURLToPath(new URL('engine-child.js', import.meta.url))

/**
 * Starts a process with an engine and resolves when the model is loaded and warmed up. It is started
 * here directly, since only a process of its own can have its own thread pool.
 */
export async function spawnEngine(
  settings: EngineSettings,
  { env, signal }: SpawnOptions,
): Promise<EngineProcess> {
  const child = fork(entry, {
    env: { UV_THREADPOOL_SIZE: threadPool(settings.backend.gpu), ...env },
    // Node's flags are the parent's business, such as a debugger's port.
    execArgv: [],
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  })
  const kill = (): void => void child.kill('SIGKILL')
  signal?.addEventListener('abort', kill, { once: true })
  try {
    const client = new RemoteEngineClient(childChannel(child), systemRandom)
    child.send({ type: 'start', settings } satisfies StartMessage)
    return { client, info: await client.ready(), ended: exit(child), kill }
  } finally {
    signal?.removeEventListener('abort', kill)
  }
}

/**
 * On the CPU one thread is best: each further one runs its decodes on cold caches (20 to 25 ms a
 * token instead of 15 were measured). On a GPU sampling is the bottleneck and gains from four.
 */
function threadPool(gpu: EngineSettings['backend']['gpu']): string {
  const isLikelyGpu = gpu === 'auto' || gpu === undefined ? process.platform === 'darwin' : true
  return gpu === 'off' || !isLikelyGpu ? '1' : '4'
}

function exit(child: ChildProcess): Promise<string> {
  return new Promise((resolve) => {
    child.once('exit', (code, signal) => resolve(signal ?? `code ${code}`))
  })
}
