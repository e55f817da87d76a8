import { injectable } from 'tsyringe'
import { BlockIndex, blockSize, commonLength, minimumWait } from './block-chain.js'
import type { Match, PrefixIndex, PrefixProducer, Slot } from '../engine-parts.js'
import type { Sequence } from '../requests/sequence.js'

/** Number of tokens in the slot. */
export const heldTokens = (slot: Slot): number => slot.owner?.slotTokens ?? slot.length

/** The most slots with equally many matching blocks whose further tokens a look-up compares. */
const closelyRead = 8

/**
 * Finds the slots that hold, or will hold, the longest prefix of a prompt. It indexes blocks, so that a look-up reads a
 * few hashes and not every slot's tokens; tokens behind the last whole block are compared one by one.
 */
@injectable()
export class BlockPrefixIndex implements PrefixIndex {
  readonly #idle = new BlockIndex<Slot>()
  readonly #running = new BlockIndex<Slot>()
  /** All blocks of sequences that are still in prefill. */
  readonly #planned = new BlockIndex<Sequence>()
  readonly #plans = new Map<Sequence, number>()
  version = 0

  /** The slots with the most leading blocks of the sequence, at most `limit` slots. */
  matches(sequence: Sequence, kind: 'idle' | 'running', limit = Infinity): readonly Match[] {
    if (!sequence.request.cache) return []
    const index = kind === 'idle' ? this.#idle : this.#running
    const { hashes } = sequence.chain
    const depth = index.depth(hashes)
    // Most prompts share nothing.
    if (depth === 0) return []
    const matches: Match[] = []
    let read = 0
    for (const slot of index.holders(hashes, depth)) {
      if (read++ === limit) break
      const shared = sharedLength(slot, sequence, depth * blockSize)
      if (shared > 0) matches.push({ slot, shared })
    }
    return matches
  }

  /** How many leading tokens of an idle slot another slot has, too, in whole blocks. */
  sharedWithOthers(slot: Slot): number {
    const hashes = slot.chain?.hashes ?? []
    return Math.max(this.#idle.depthOfOthers(slot, hashes), this.#running.depth(hashes)) * blockSize
  }

  /** The sequence that is computing the longest prefix of this one, and the prefix's length. */
  planned(sequence: Sequence): PrefixProducer | undefined {
    if (!sequence.request.cache) return undefined
    const { hashes } = sequence.chain
    const depth = this.#planned.depth(hashes)
    let first: Sequence | undefined
    for (const planned of this.#planned.holders(hashes, depth)) {
      if (first === undefined || planned.computedTokens > first.computedTokens) first = planned
    }
    const shared = Math.min(depth * blockSize, sequence.tokens.length - 1)
    return first === undefined ? undefined : { sequence: first, shared }
  }

  /** A sequence got the slot: indexes what it has computed and, while it is in prefill, what it will compute. */
  occupy(slot: Slot, sequence: Sequence): void {
    if (!sequence.isShared) return
    slot.chain = sequence.chain
    this.grow(slot, sequence)
    if (sequence.remainingTokens < minimumWait || this.#plans.has(sequence)) return
    const { hashes } = sequence.chain
    this.#plans.set(sequence, hashes.length)
    this.#planned.add(sequence, hashes, 0, hashes.length)
  }

  /** The sequence in the slot has computed more. */
  grow(slot: Slot, sequence: Sequence): void {
    const blocks = Math.floor(sequence.computedTokens / blockSize)
    if (slot.chain !== undefined && blocks > slot.blocks) {
      this.#running.add(slot, slot.chain.hashes, slot.blocks, blocks)
      slot.blocks = blocks
      this.version++
    }
    if (sequence.remainingTokens === 0 && this.#plans.size > 0) this.unplan(sequence)
  }

  /** Removes the blocks that the sequence would compute from the index. */
  unplan(sequence: Sequence): void {
    const blocks = this.#plans.get(sequence)
    if (blocks === undefined) return
    this.#planned.remove(sequence, sequence.chain.hashes, 0, blocks)
    this.#plans.delete(sequence)
  }

  /** Removes the slot's content from the index. */
  drop(slot: Slot): void {
    const index = slot.owner === undefined ? this.#idle : this.#running
    index.remove(slot, slot.chain?.hashes ?? [], 0, slot.blocks)
    if (slot.blocks > 0) this.version++
    slot.blocks = 0
    slot.chain = undefined
  }

  /** The slot has no owner any more: indexes the content that it keeps. */
  keep(slot: Slot, { chain }: Pick<Sequence, 'chain'>): void {
    slot.chain = chain
    slot.blocks = Math.floor(slot.length / blockSize)
    this.#idle.add(slot, chain.hashes, 0, slot.blocks)
    if (slot.blocks > 0) this.version++
  }
}

/**
 * The number of leading tokens in common, without the sequence's last one, whose logits must be computed anew.
 *
 * @param known - leading tokens that are known to be equal
 */
export function sharedLength(slot: Slot, sequence: Sequence, known = 0): number {
  if (slot.chain === undefined) return 0
  const limit = Math.min(heldTokens(slot), sequence.tokens.length - 1)
  return commonLength(slot.chain, sequence.chain, limit, known)
}

/** The most leading tokens of the sequence that an idle slot holds, or that a running one has computed. */
export function longestMatch(
  index: PrefixIndex,
  sequence: Sequence,
  kind: 'idle' | 'running',
): number {
  let most = 0
  for (const { shared } of index.matches(sequence, kind, closelyRead)) most = Math.max(most, shared)
  return most
}
