import { MessageChannel, type MessagePort, Worker } from 'node:worker_threads'
import { type Logger, type SamplingParams, type TokenId, attempt } from '@cllm/core'
import { type QueuedDraw, notDrawn, SharedDrawQueue } from './shared-draw-queue.js'

/** Fewer draws are made sooner than another thread has woken. */
const leastDraws = 3
/** A draw takes a fraction of a millisecond. */
const patienceMs = 5000

/**
 * What a sequence's draws depend on beside the logits and the position, where neither earlier tokens nor processors
 * count: such a draw can be made in any thread. Of a grammar it is the first try.
 */
export interface PlainDrawSettings {
  readonly params: SamplingParams
  /** What is added to the logits of single tokens. */
  readonly biases?: { readonly tokens: Uint32Array; readonly values: Float32Array }
}

/** What a thread that draws is started with. */
export interface DrawWorkerData {
  readonly queue: SharedArrayBuffer
  readonly vocabularySize: number
  readonly samplers: MessagePort
}

/** Tells a thread of a sampler, or that there is none any more. */
export interface SamplerMessage {
  readonly sampler: number
  readonly settings?: PlainDrawSettings
}

/** A draw, and how this thread makes it. */
export interface SharedDraw extends QueuedDraw {
  /** Not called where another thread has drawn. */
  draw(): TokenId
}

/** One of the threads. */
interface DrawThread {
  readonly worker: Worker
  readonly samplers: MessagePort
  readonly ended: Promise<unknown>
}

/**
 * Threads that draw together with this one, while nothing else computes: where a GPU makes a forward
 * pass in a few milliseconds, drawing 32 tokens one after the other takes as long. They start with the
 * first draws that are worth it.
 */
export class DrawThreads {
  readonly #queue = new SharedDrawQueue()
  #workers: readonly DrawThread[] | undefined
  #isBroken = false
  /** Of the samplers that the threads have not been told of. */
  readonly #untold = new Map<number, PlainDrawSettings>()
  /** Samplers that they were told of and that have been removed. */
  #removed: number[] = []
  #samplers = 0
  /** Threads that the last draws woke; 0: they were made alone. */
  #woken = 0
  readonly #wake = (): void => this.#queue.announce(this.#woken)

  /** @param threads - beside this one */
  constructor(
    private readonly threads: number,
    private readonly vocabularySize: number,
    private readonly logger: Logger,
  ) {}

  /** Makes a sampler known, whose draws any thread may make; returns its number. */
  add(settings: PlainDrawSettings): number {
    const sampler = ++this.#samplers
    this.#untold.set(sampler, settings)
    return sampler
  }

  remove(sampler: number): void {
    if (!this.#untold.delete(sampler)) this.#removed.push(sampler)
  }

  /** Says that draws come soon: as many threads wake up as the last draws have woken. Undefined: those were made alone. */
  get announce(): (() => void) | undefined {
    return this.#woken > 0 ? this.#wake : undefined
  }

  /** Draws all: {@link notDrawn} where a thread could not; undefined where they are too few to be worth it. */
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
   * Resolves when the threads have ended and read no logits any more. They end by themselves: one that is ended
   * from outside while it loads the library for native calls takes the process with it.
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
   * Tells the threads what they need for these draws. They read it when they draw: what is only ever drawn
   * here would pile up before them.
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

  /** From here on this thread draws alone. */
  #break(error: unknown): void {
    if (this.#isBroken) return
    this.#isBroken = true
    this.#queue.close()
    this.logger.warn({ err: error }, 'drawing in several threads failed: one draws now')
  }
}
