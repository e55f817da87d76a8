import { Worker } from 'node:worker_threads'
import type { StateMemorySource } from '@cllm/core'
import type { Settling } from '../../client/wrapping.js'
import type { stateJobs } from './state-jobs.js'

type Jobs = typeof stateJobs

/** A job, by its name, with what it is given. */
export interface StateTask {
  readonly name: keyof Jobs
  readonly given: readonly unknown[]
}

/** How a task ended. */
export interface StateReply {
  /** What came of it. */
  readonly result?: unknown
  /** Why it failed; undefined: it did not. */
  readonly problem?: string
  /** The operating system's name of the failure. */
  readonly code?: string | undefined
}

/**
 * A thread for what would keep the event loop, or the only thread of libuv's pool, which computes, from
 * their work: files of states, and new memory. It is made for the first task, does one after the other,
 * and keeps no process alive that waits for none.
 */
export class StateThread {
  #worker: Worker | undefined
  #pending: Settling<unknown>[] = []

  /** @param niceness - on Linux, how far behind the threads that compute it is, 0 to 19 */
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
      // what cannot be sent fails by itself: nothing would come back for it
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

/** That of this process for writing files, which nobody waits for. */
export const writeThread = new StateThread(10)
/** That for reading them, which a request waits for. */
export const readThread = new StateThread(0)
/** That for reading those which clients name: they may be large, and no request waits for them. */
export const slotThread = new StateThread(0)

/** Memory for states that a thread of its own makes ready, and that the thread of files shares. */
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
