import type { Clock } from '../../contracts/services.js'
import { CllmError } from '../../errors/cllm-error.js'
import type { BetweenSteps, LoopWork } from '../loop/between-steps.js'
import type { EngineObservers } from '../report/engine-observers.js'
import type { RequestTable } from './request-table.js'
import type { Encoding, Sequence } from './sequence.js'

/**
 * The requests in the queue of which an image or sound is being encoded. Each computes what is before it; then others may
 * have its slot, and policies do not see it until the rest can be computed.
 */
export class EncodingSet implements LoopWork {
  readonly #open = new Set<Sequence>()

  constructor(
    private readonly table: Pick<RequestTable, 'waiting' | 'preempt' | 'mark'>,
    private readonly between: BetweenSteps,
    private readonly observers: EngineObservers,
    private readonly clock: Clock,
  ) {}

  get isDue(): boolean {
    return this.#open.size > 0
  }

  /** Takes the slots of those that have come to their file. What is computed is found there again, if it is not lost. */
  async settle(): Promise<void> {
    for (const sequence of this.#open) {
      if (!sequence.isAtEncoding) continue
      sequence.gaveWay = true
      this.table.preempt(sequence, this.clock.now())
      this.#hold(sequence)
    }
  }

  /** A request has joined the queue. Calls `onEncoded` when all of it can be computed; if it cannot, the request ends. */
  async add(sequence: Sequence, { from, done }: Encoding, onEncoded: () => void): Promise<void> {
    this.#open.add(sequence)
    try {
      this.between.add(this)
      const found = sequence.tokens.length - sequence.remainingTokens
      // Without the cache, what is computed would be lost with the slot.
      if (found >= from || !sequence.request.cache) this.#hold(sequence)
      const media = await done
      if (!sequence.isActive) return
      onEncoded()
      const { waiting } = this.table
      const wasHeld = waiting.encoding.delete(sequence)
      if (wasHeld) this.observers.tell('onReleased', sequence, this.clock.now())
      if (wasHeld) waiting.unhold([sequence])
      sequence.media = media
      sequence.encoding = undefined
      this.between.notify()
    } catch (error) {
      if (sequence.isActive) this.table.mark(sequence, CllmError.from(error))
    } finally {
      this.#open.delete(sequence)
    }
  }

  #hold(sequence: Sequence): void {
    const { waiting } = this.table
    // It may be held back for another reason.
    if (!waiting.has(sequence.id)) return
    waiting.hold(sequence)
    waiting.encoding.add(sequence)
    this.observers.tell('onHeld', sequence, this.clock.now())
  }
}
