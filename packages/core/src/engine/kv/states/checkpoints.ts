import { inject, injectable } from 'tsyringe'
import type { SlotId } from '../../../contracts/model/backend.js'
import type { Sequence } from '../../requests/sequence.js'
import { type BlockChain, blockSize } from '../block-chain.js'
import { minimumWait } from '../prefix-index.js'
import { StateCache } from './state-cache.js'

/** Tokens at the end of a prompt that the next turn may write in another way: the opening of an answer. */
const opening = 8

interface Due {
  readonly slot: SlotId
  readonly chain: BlockChain
  readonly length: number
}

/**
 * Decides where checkpoints are saved for models whose slots cannot be cut: where two conversations have
 * been seen to part, where another request waits for a prefix, and at the end of each prompt, as an
 * answer is often written into the next prompt in another way. A chunk of the prompt ends there, and the
 * checkpoint is saved before the next step.
 */
@injectable()
export class Checkpoints {
  readonly #due: Due[] = []

  constructor(@inject(StateCache) private readonly cache: StateCache) {}

  /** Whether some are to be saved before the next step. */
  get isDue(): boolean {
    return this.#due.length > 0
  }

  /**
   * Plans those of a sequence that got its slot.
   *
   * @param known - how many of its tokens other conversations began with, whatever can be used of them
   */
  plan(sequence: Sequence, known: number): void {
    sequence.stops = []
    if (this.cache.cutsAnywhere || !sequence.request.cache) return
    for (const place of [known, sequence.promptTokens - 1 - opening]) this.want(sequence, place)
  }

  /** Wants one after about this many tokens. */
  want(sequence: Sequence, place: number): void {
    const length = place - (place % blockSize)
    const { chain, computedTokens, stops } = sequence
    if (this.cache.cutsAnywhere || stops.includes(length)) return
    if (length < minimumWait || length <= computedTokens || length >= sequence.tokens.length) return
    if (this.cache.hasCheckpoint(chain, length)) return
    sequence.stops = [...stops, length].toSorted((a, b) => a - b)
  }

  /** The sequence has computed more. */
  onAdvanced({ slot, chain, computedTokens, stops }: Sequence): void {
    while (stops.length > 0 && stops[0]! <= computedTokens) {
      const length = stops.shift()!
      if (length === computedTokens && slot !== undefined) this.#due.push({ slot, chain, length })
    }
  }

  /** Saves those that are due. */
  async settle(): Promise<void> {
    for (const { slot, chain, length } of this.#due.splice(0)) {
      await this.cache.saveCheckpoint(slot, chain, length)
    }
  }
}
