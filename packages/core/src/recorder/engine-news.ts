import type { StepRecord } from '../contracts/recording.js'
import { blockSize } from '../engine/block-chain.js'
import type { Engine } from '../engine/engine.js'

/** A request that an engine took in. */
export interface QueuedNews {
  readonly id: string
  readonly maxTokens: number
  /** Hashes of the whole blocks of its prompt. */
  readonly blocks: readonly number[]
}

/** What an engine tells besides events: it travels with the message that is sent next. */
export interface EngineNews {
  readonly steps: readonly StepRecord[]
  readonly queued: readonly QueuedNews[]
  /** Milliseconds of work since its start. */
  readonly busyMs: number
}

/** Gathers an engine's news until they are taken. */
export class NewsDesk {
  #steps: StepRecord[] = []
  #queued: QueuedNews[] = []

  constructor(private readonly engine: Engine) {
    const { journal } = engine
    journal.counters.onStep = (step) => this.#steps.push(step)
    journal.onQueued = ({ id, maxTokens, promptTokens, chain }) => {
      const blocks = chain.hashes.slice(0, Math.floor(promptTokens / blockSize))
      this.#queued.push({ id, maxTokens, blocks })
    }
  }

  /** What is new since the last time, as a part of a message; nothing where nothing is. */
  take(): { readonly news?: EngineNews } {
    const [steps, queued] = [this.#steps, this.#queued]
    if (steps.length === 0 && queued.length === 0) return {}
    this.#steps = []
    this.#queued = []
    return { news: { steps, queued, busyMs: this.engine.journal.counters.busyMs } }
  }
}
