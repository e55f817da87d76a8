import type { SlotId } from '../../contracts/model/backend.js'

/**
 * Counts the KV cells of a pool that slots share, so that a backend knows its `freeTokens`. A copied prefix uses the
 * same cells in both slots; a cell is free again when the last slot has given it back. Cells are plain numbers here, not
 * positions in memory.
 */
export class CellPool {
  /** By slot: the cells of its tokens. */
  readonly #cells: number[][]
  /** By cell: the number of slots that use it. */
  readonly #owners: Uint16Array
  /** Cells that were given back. */
  readonly #spare: number[] = []
  /** Cells from this one on were never used. */
  #fresh = 0

  /** @param size - tokens that all slots hold together */
  constructor(
    readonly size: number,
    slots: number,
  ) {
    this.#cells = Array.from({ length: slots }, () => [])
    this.#owners = new Uint16Array(size)
  }

  /** How many more tokens fit. */
  get free(): number {
    return this.size - this.#fresh + this.#spare.length
  }

  /** Changes the number of tokens in a slot. Throws if they do not fit. */
  resize(slot: number, length: number): void {
    const cells = this.#of(slot)
    const more = length - cells.length
    if (more > this.free) {
      throw new RangeError(`expected at most ${this.free} more tokens, got ${more}`)
    }
    while (cells.length > length) this.#giveBack(cells.pop()!)
    while (cells.length < length) {
      const cell = this.#spare.pop() ?? this.#fresh++
      this.#owners[cell] = 1
      cells.push(cell)
    }
  }

  /** The first `length` tokens of `from` become all that `to` holds, in the same cells. */
  copy(from: number, to: number, length: number): void {
    const shared = this.#of(from).slice(0, length)
    for (const cell of shared) this.#owners[cell]!++
    this.resize(to, 0)
    this.#cells[to] = shared
  }

  #of(slot: number): number[] {
    const cells = this.#cells[slot]
    if (cells === undefined) throw new RangeError(`there is no slot ${slot}`)
    return cells
  }

  #giveBack(cell: number): void {
    if (--this.#owners[cell]! === 0) this.#spare.push(cell)
  }
}

/** The gaps between these slots, each as the list of the missing slots, lowest first. */
export function slotGaps(slots: readonly SlotId[]): SlotId[][] {
  const sorted = [...slots].sort((a, b) => a - b)
  const gaps: SlotId[][] = []
  for (let index = 1; index < sorted.length; index++) {
    const gap: SlotId[] = []
    for (let slot = sorted[index - 1]! + 1; slot < sorted[index]!; slot++) gap.push(slot)
    if (gap.length > 0) gaps.push(gap)
  }
  return gaps
}

/** The cost, as a share of a pass, of each free slot of a gap: more of them must be taken before the gap is closed. */
const holeShare = 0.1

/**
 * Milliseconds that a step takes longer because of a gap between slots: a further pass over the weights, or computing a
 * token along in each of its slots.
 */
export const gapMs = ({ length }: readonly SlotId[], passMs: number, fillMs: number): number =>
  Math.min((1 + holeShare * length) * passMs, fillMs)

/** A sequence's share of a step: its slot, the tokens to compute, and the tokens in the slot before. */
export interface Share {
  readonly slot: number
  readonly tokens: number
  readonly context: number
}

/**
 * The passes over the weights into which llama.cpp splits a batch if each sequence has its own KV memory: a pass takes the
 * same number of tokens of each of several sequences with consecutive slots.
 *
 * @param passTokens - the most tokens of a pass: llama.cpp's `n_ubatch`
 */
export function passesOf(shares: readonly Share[], passTokens = 512): (readonly Share[])[] {
  // Most steps decode one sequence.
  if (shares.length === 1 && shares[0]!.tokens <= passTokens) return [shares]
  const passes: (readonly Share[])[] = []
  let left = [...shares].sort((one, other) => one.slot - other.slot)
  while (left.length > 0) {
    let length = 1
    while (left[length]?.slot === (left[0]?.slot ?? 0) + length) length++
    const shortest = Math.min(...left.slice(0, length).map((share) => share.tokens))
    const tokens = Math.min(shortest, Math.max(1, Math.floor(passTokens / length)))
    passes.push(left.slice(0, length).map((share) => ({ ...share, tokens })))
    left = left.flatMap((share, index) => {
      if (index >= length) return [share]
      if (share.tokens === tokens) return []
      return [{ ...share, tokens: share.tokens - tokens, context: share.context + tokens }]
    })
  }
  return passes
}

/**
 * What llama.cpp computes for several tokens of each sequence, as far as it costs time: the tokens, and the pairs of a
 * token and one that it reads, in whole tiles of queries (`pairs`) and in chunks that are shorter (`lonePairs`).
 *
 * @param tile - queries per tile of attention
 */
export function chunkWork(shares: readonly Share[], tile: number) {
  let [count, pairs, lonePairs] = [0, 0, 0]
  for (const { tokens, context } of shares) {
    const keys = context + tokens / 2
    count += tokens
    if (tokens < tile) lonePairs += tokens * keys
    else pairs += Math.ceil(tokens / tile) * tile * keys
  }
  return { tokens: count, pairs, lonePairs }
}
