import type { StateMemorySource } from '@cllm/core'
import { StateThread } from './thread/state-thread.js'

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
