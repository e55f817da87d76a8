import { entryOf } from '../../../defined.js'
import { attempt } from '../../../errors/cllm-error.js'
import type { StateMemorySource } from '../../../contracts/model/states.js'

/** Sizes of buffers are powers of this: a buffer is at most this many times as long as its content. */
const step = 2 ** (1 / 4)
/** Buffers below this size in bytes are not kept for reuse. */
const smallest = 65_536
const page = 4096

/**
 * The buffers that states are written into. Buffers of evicted states are reused: the first write to new memory takes
 * five times as long as later ones, as the operating system has to find and clear each page.
 */
export class StateMemory {
  readonly #free = new Map<number, ArrayBufferLike[]>()
  /** Bytes of the free buffers that are kept for reuse. */
  freeBytes = 0
  #isMaking = false
  /** The size of the latest buffer that could not be allocated. */
  #failed: number | undefined

  /** @param source - allocates buffers; default: plain `ArrayBuffer`s, which are never made ready */
  constructor(private readonly source?: StateMemorySource) {}

  /**
   * A buffer for this many bytes, which may be longer underneath. Undefined where it cannot be allocated: beyond the
   * runtime's longest length, or where the machine has no memory left.
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
   * Has a buffer written to once, in the background, if no used one of this size is free. Returns whether `take` need
   * not wait for that: the buffer is there, or it could not be allocated.
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
      // If it cannot be made ready, unwritten memory is used.
      const buffer = await source.makeReady(size).catch(() => source.make(size))
      this.give(new Uint8Array(buffer))
    } catch {
      this.#failed = size
    } finally {
      this.#isMaking = false
    }
  }

  /** Keeps the buffer of a state that nobody reads any more for reuse. */
  give({ buffer }: Uint8Array): void {
    const size = buffer.byteLength
    if (size < smallest || sizeFor(size) !== size) return
    entryOf(this.#free, size, () => []).push(buffer)
    this.freeBytes += size
  }

  /** Drops free buffers until at most this many bytes are kept. */
  shrink(bytes: number): void {
    for (const [size, buffers] of this.#free) {
      while (this.freeBytes > bytes && buffers.pop() !== undefined) this.freeBytes -= size
      if (buffers.length === 0) this.#free.delete(size)
    }
  }
}

const sizeOf = (power: number): number => Math.ceil(step ** power / page) * page

/** The buffer size for a state of this many bytes: few different sizes, so that buffers fit other states. */
export function sizeFor(bytes: number): number {
  if (bytes < smallest) return bytes
  // Powers are rounded up to whole pages; the result must map to itself.
  const power = Math.ceil(Math.log(bytes - page + 1) / Math.log(step) - 1e-9)
  const size = sizeOf(power)
  return size < bytes ? sizeOf(power + 1) : size
}

/** The buffer sizes used for this many bytes: an estimate may be just below the next size. */
const fitting = (bytes: number): number[] => [sizeFor(bytes), sizeFor(bytes * step)]
