import { LinearFit } from '@cllm/core'

/**
 * What a pass, each of its tokens, and a token and one that it reads, in whole tiles and without, are
 * taken to cost at first, each beside the others: a 0.6B model on two cores.
 */
const prior = [20, 2.2, 0.0025, 0.0146]
/**
 * Tiles round differently. Behind fewer tokens they gain hardly anything, and short conversations are computed
 * the same each time.
 */
const leastContext = 256

/**
 * Says when to compute a prompt's short chunk as a whole tile. On the CPU, llama.cpp computes flash
 * attention in tiles of queries, and a chunk with fewer query by query: behind some hundred tokens that takes
 * longer than a tile, the rest of which may be any tokens. Costs are learned from the passes of one chunk.
 */
export class ChunkTile {
  readonly size: number
  readonly #costs = new LinearFit({ prior, memory: 0.98, outlier: 3 })

  /** @param size - queries of a tile */
  constructor(size: number) {
    this.size = size
  }

  /** Learns from a pass of one chunk behind `context` tokens. */
  computed(tokens: number, context: number, milliseconds: number): void {
    this.#costs.observe(this.#features(tokens, context), milliseconds)
  }

  /** Whether a chunk behind `context` tokens is computed sooner with tokens that fill its tile. */
  pays(tokens: number, context: number): boolean {
    if (tokens >= this.size || context < leastContext) return false
    const alone = this.#costs.predict(this.#features(tokens, context))
    return this.#costs.predict(this.#features(this.size, context)) < alone
  }

  #features(tokens: number, context: number): number[] {
    const keys = context + tokens / 2
    if (tokens < this.size) return [1, tokens, 0, tokens * keys]
    return [1, tokens, Math.ceil(tokens / this.size) * this.size * keys, 0]
  }
}
