import { entryOf } from '../../../defined.js'
import { attempt } from '../../../errors/cllm-error.js'
import type { StateMemorySource } from '../../../contracts/model/states.js'

/** A piece of memory is at most this many times as long as what is put into it. */
const step = 2 ** (1 / 4)
/** Shorter ones are not worth keeping. */
const smallest = 65_536
const page = 4096

/**
 * The memory that states are written into. That of states which were dropped is used again: the first
 * write to new memory takes five times as long as the next ones, as the operating system has to find
 * and clear each page.
 */
export class StateMemory {
  readonly #free = new Map<number, ArrayBufferLike[]>()
  /** Bytes that are kept for later. */
  freeBytes = 0
  #isMaking = false
  /** The size that was made last, where there was no memory for it. */
  #failed: number | undefined

  /** @param source - default: new memory of the runtime, which is never made ready */
  constructor(private readonly source?: StateMemorySource) {}

  /**
   * Room for this many bytes, which may be longer than that underneath; undefined where there is none: the
   * runtime has a longest length, and the machine an end.
   */
  take(bytes: number): Uint8Array | undefined {
    for (const size of fitting(bytes)) {
      const buffer = this.#free.get(size)?.pop()
      if (buffer === undefined) continue
      this.freeBytes -= size
      return new Uint8Array(buffer, 0, bytes)
    }
    const size = sizeFor(bytes)
    const make = () => this.source?.make(size) ?? new ArrayBuffer(size)
    return attempt(() => new Uint8Array(make(), 0, bytes))
  }

  /**
   * Has memory made ready where there is none that was written to before. Returns whether `take` need not wait for
   * that: it is there, or could not be made.
   */
  prepare(bytes: number): boolean {
    if (this.source === undefined || bytes < smallest) return true
    if (fitting(bytes).some((size) => (this.#free.get(size)?.length ?? 0) > 0)) return true
    const size = sizeFor(bytes)
    if (size === this.#failed) return true
    if (!this.#isMaking) void this.#make(this.source, size)
    return false
  }

  async #make(source: StateMemorySource, size: number): Promise<void> {
    this.#isMaking = true
    this.#failed = undefined
    try {
      // Where it cannot be made ready, new memory has to do.
      const buffer = await source.makeReady(size).catch(() => source.make(size))
      this.give(new Uint8Array(buffer))
    } catch {
      this.#failed = size
    } finally {
      this.#isMaking = false
    }
  }

  /** Keeps the memory of a state that nobody reads any more. */
  give({ buffer }: Uint8Array): void {
    const size = buffer.byteLength
    if (size < smallest || sizeFor(size) !== size) return
    entryOf(this.#free, size, () => []).push(buffer)
    this.freeBytes += size
  }

  /** Gives memory back to the operating system until at most this many bytes are kept. */
  shrink(bytes: number): void {
    for (const [size, buffers] of this.#free) {
      while (this.freeBytes > bytes && buffers.pop() !== undefined) this.freeBytes -= size
      if (buffers.length === 0) this.#free.delete(size)
    }
  }
}

const sizeOf = (power: number): number => Math.ceil(step ** power / page) * page

/** Bytes of the memory for a state of this many bytes: few different sizes, so that memory fits again. */
export function sizeFor(bytes: number): number {
  if (bytes < smallest) return bytes
  // The size of a power is rounded up to whole pages, and has to be its own size.
  const power = Math.ceil(Math.log(bytes - page + 1) / Math.log(step) - 1e-9)
  const size = sizeOf(power)
  return size < bytes ? sizeOf(power + 1) : size
}

/** The sizes of memory that is used for this many bytes: an estimate may be just below the next one. */
const fitting = (bytes: number): number[] => [sizeFor(bytes), sizeFor(bytes * step)]
