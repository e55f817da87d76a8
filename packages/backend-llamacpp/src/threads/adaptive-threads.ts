import type { StepPass } from '../slots/step-batch.js'
import { ThreadTuner, type ThreadTunerOptions } from './thread-tuner.js'

/** Runs each pass of a context on as many threads as are fastest at the time. */
export class AdaptiveThreads {
  readonly #set: (threads: number) => void
  readonly #decodes: ThreadTuner
  readonly #prompts: ThreadTuner
  #threads: number

  /** @param set - makes the context compute on this many threads from now on; it starts with `start` */
  constructor(set: (threads: number) => void, options: ThreadTunerOptions) {
    this.#set = set
    this.#threads = options.start
    this.#decodes = new ThreadTuner(options)
    this.#prompts = new ThreadTuner(options)
  }

  before(pass: StepPass): void {
    const threads = this.#tuner(pass).next(pass.tokens)
    if (threads === this.#threads) return
    this.#threads = threads
    this.#set(threads)
  }

  after(pass: StepPass, ms: number): void {
    this.#tuner(pass).took(this.#threads, pass.tokens, ms)
  }

  #tuner({ isDecode }: StepPass): ThreadTuner {
    return isDecode ? this.#decodes : this.#prompts
  }
}
