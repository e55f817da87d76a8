import { Worker } from 'node:worker_threads'
import type { StateMemorySource } from '@cllm/core'
import type { Settling } from '../../client/wrapping.js'
import type { stateJobs } from './state-jobs.js'

type Jobs = typeof stateJobs

/** A job's name and its arguments. */
export interface StateTask {
  readonly name: keyof Jobs
  readonly given: readonly unknown[]
}

/** How a task ended. */
export interface StateReply {
  /** Its return value. */
  readonly result?: unknown
  /** Why it failed; undefined: it did not. */
  readonly problem?: string
  /** The operating system's name of the failure. */
  readonly code?: string | undefined
}

/**
 * A thread for work that would block the event loop, or the only thread of libuv's pool, which computes: files of
 * states, and new memory. It is started by the first task, does one task after the other, and does not keep the process
 * alive while it has none.
 */
export class StateThread {
  #worker: Worker | undefined
  #pending: Settling<unknown>[] = []

  /** @param niceness - on Linux, how much lower its priority is than that of the computing threads, 0 to 19 */
  constructor(private readonly niceness: number) {}

  /**
   * Does a job of {@link Jobs}.
   * @throws Error that says why it failed
   */
  async run<Name extends keyof Jobs>(
    name: Name,
    ...given: Parameters<Jobs[Name]>
  ): Promise<ReturnType<Jobs[Name]>> {
    this.#worker ??= this.#start()
    const worker = this.#worker
    const result = await new Promise<unknown>((resolve, reject) => {
      // Throws if it cannot be sent, before an answer is awaited.
      worker.postMessage({ name, given } satisfies StateTask, [])
      this.#pending.push({ resolve, reject })
      worker.ref()
    })
    return result as ReturnType<Jobs[Name]>
  }

  #start(): Worker {
    const worker = new Worker(new URL('state-thread-entry.js', import.meta.url), {
      execArgv: [],
      workerData: { niceness: this.niceness },
    })
    worker.on('message', ({ result, problem, code }: StateReply) => {
      const pending = this.#pending.shift()
      if (this.#pending.length === 0) worker.unref()
      if (problem === undefined) pending?.resolve(result)
      else pending?.reject(Object.assign(new Error(problem), { code }))
    })
    worker.on('error', (error: Error) => {
      if (this.#worker === worker) this.#worker = undefined
      for (const { reject } of this.#pending.splice(0)) reject(error)
    })
    return worker
  }
}

/** The thread that writes files; nobody waits for it. */
export const writeThread = new StateThread(10)
/** The thread that reads files; requests wait for it. */
export const readThread = new StateThread(0)
/** The thread that reads files that clients name: they may be large, and no request waits for them. */
export const slotThread = new StateThread(0)

/** Memory for states, which a thread of its own makes ready, and which the threads for files share. */
export class TouchedMemory implements StateMemorySource {
  readonly #thread = new StateThread(5)

  make(bytes: number): ArrayBufferLike {
    return new SharedArrayBuffer(bytes)
  }

  async makeReady(bytes: number): Promise<ArrayBufferLike> {
    const memory = new SharedArrayBuffer(bytes)
    await this.#thread.run('touch', memory)
    return memory
  }
}
