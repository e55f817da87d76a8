import { MessageChannel, type MessagePort, Worker } from 'node:worker_threads'
import { type Logger, type SamplingParams, type TokenId, attempt } from '@cllm/core'
import { type QueuedDraw, notDrawn, SharedDrawQueue } from './shared-draw-queue.js'

/** The fewest draws to share: fewer take less time than waking another thread. */
const leastDraws = 3
/** How long to wait for another thread's draw, which normally takes a fraction of a millisecond. */
const patienceMs = 5000

/**
 * The settings of a sequence's draws if these depend on nothing else but the logits and the position, not on earlier
 * tokens or processors: any thread can make such draws. With a grammar, this is the first try.
 */
export interface PlainDrawSettings {
  readonly params: SamplingParams
  /** Added to the logits of single tokens. */
  readonly biases?: { readonly tokens: Uint32Array; readonly values: Float32Array }
}

/** The data with which a drawing thread is started. */
export interface DrawWorkerData {
  readonly queue: SharedArrayBuffer
  readonly vocabularySize: number
  readonly samplers: MessagePort
}

/** Tells a thread about a new sampler, or without `settings` that it was removed. */
export interface SamplerMessage {
  readonly sampler: number
  readonly settings?: PlainDrawSettings
}

/** A draw with the function that makes it in this thread. */
export interface SharedDraw extends QueuedDraw {
  /** Not called if another thread makes the draw. */
  draw(): TokenId
}

interface DrawThread {
  readonly worker: Worker
  readonly samplers: MessagePort
  readonly ended: Promise<unknown>
}

/**
 * Threads that share the draws with this one while nothing else computes: if a GPU computes a forward pass in a few
 * milliseconds, drawing 32 tokens one after the other takes as long. They start with the first draws that are worth
 * sharing.
 */
export class DrawThreads {
  readonly #queue = new SharedDrawQueue()
  #workers: readonly DrawThread[] | undefined
  #isBroken = false
  /** The settings of the samplers that the threads do not know yet. */
  readonly #untold = new Map<number, PlainDrawSettings>()
  /** Removed samplers that the threads still know. */
  #removed: number[] = []
  #samplers = 0
  /** The number of threads that the last draws woke; 0: this thread drew alone. */
  #woken = 0
  readonly #wake = (): void => this.#queue.announce(this.#woken)

  /** @param threads - beside this one */
  constructor(
    private readonly threads: number,
    private readonly vocabularySize: number,
    private readonly logger: Logger,
  ) {}

  /** Registers a sampler whose draws any thread may make; returns its number. */
  add(settings: PlainDrawSettings): number {
    const sampler = ++this.#samplers
    this.#untold.set(sampler, settings)
    return sampler
  }

  remove(sampler: number): void {
    if (!this.#untold.delete(sampler)) this.#removed.push(sampler)
  }

  /** Wakes as many threads as the last draws, as draws come soon. Undefined: this thread made the last draws alone. */
  get announce(): (() => void) | undefined {
    return this.#woken > 0 ? this.#wake : undefined
  }

  /** Makes all draws; {@link notDrawn} for one that failed. Undefined if sharing them is not worth it, or failed. */
  draw(draws: readonly SharedDraw[]): TokenId[] | undefined {
    const { mostDraws } = SharedDrawQueue
    this.#woken = 0
    if (draws.length < leastDraws || draws.length > mostDraws || this.#isBroken) return undefined
    this.#workers ??= this.#start()
    this.#tellOf(draws)
    const queue = this.#queue
    this.#woken = Math.floor(draws.length / 2)
    queue.begin(draws, this.#woken)
    queue.drawAll((_, nth) => attempt(() => draws[nth]!.draw(), notDrawn))
    if (!queue.waitForAll(patienceMs)) {
      this.#break(new Error(`a thread has not drawn after ${patienceMs} ms`))
      return undefined
    }
    return draws.map((_, nth) => queue.token(nth))
  }

  /**
   * Resolves when the threads have ended, and so read no logits any more. They end by themselves: terminating a thread
   * while it loads the library for native calls would end the process.
   */
  async dispose(): Promise<void> {
    this.#isBroken = true
    this.#queue.close()
    const ended = (this.#workers ?? []).map(async ({ worker, ended }) => {
      worker.ref()
      await ended
    })
    this.#workers = []
    await Promise.all(ended)
  }

  #start() {
    const entry = new URL('./draw-worker.js', import.meta.url)
    return Array.from({ length: this.threads }, () => {
      const { port1: samplers, port2 } = new MessageChannel()
      const workerData: DrawWorkerData = {
        queue: this.#queue.memory,
        vocabularySize: this.vocabularySize,
        samplers: port2,
      }
      const worker = new Worker(entry, { workerData, transferList: [port2] })
      const ended = new Promise((resolve) => worker.once('exit', resolve))
      worker.unref()
      samplers.unref()
      worker.once('error', (error) => this.#break(error))
      return { worker, samplers, ended }
    })
  }

  /**
   * Tells the threads about samplers that these draws use. Threads only read messages when they draw, so messages about
   * samplers whose draws are never shared would pile up.
   */
  #tellOf(draws: readonly SharedDraw[]): void {
    for (const sampler of this.#removed) this.#tell({ sampler })
    this.#removed = []
    for (const { sampler } of draws) {
      const settings = this.#untold.get(sampler)
      if (settings === undefined) continue
      this.#untold.delete(sampler)
      this.#tell({ sampler, settings })
    }
  }

  #tell(message: SamplerMessage): void {
    for (const { samplers } of this.#workers ?? []) {
      // oxlint-disable-next-line unicorn/require-post-message-target-origin -- that is for windows
      samplers.postMessage(message)
    }
  }

  /** Stops sharing: from now on this thread draws alone. */
  #break(error: unknown): void {
    if (this.#isBroken) return
    this.#isBroken = true
    this.#queue.close()
    this.logger.warn({ err: error }, 'drawing in several threads failed: one draws now')
  }
}
