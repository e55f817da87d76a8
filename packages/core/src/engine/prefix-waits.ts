import { blockSize } from './block-chain.js'
import type { Journal } from './journal.js'
import type { KvSlots } from './kv-slots.js'
import type { Sequence } from './sequence.js'
import { minimumWait } from './slot-index.js'
import type { WaitingQueue } from './waiting-queue.js'

interface Group {
  /** When they are let go though the leader is not there yet. */
  readonly deadline: number
  /** The followers, and how many tokens the leader must have computed for each. */
  readonly followers: Map<Sequence, number>
}

/** A leader gets this many times as long as it would need alone, and a second on top. */
const patience = 4
const patienceMs = 1000
/** A request waits for so many leaders at most, since one after the other may leave. */
const mostWaits = 3
/** Of the waiting requests that begin alike, so many are looked at when one of them gets a slot. */
const mostLooks = 1024

const watchedBlocks = minimumWait / blockSize

/**
 * Holds requests back whose prompt begins with what another one is computing now, until it has: then
 * they copy it (the in-batch deduplication of SGLang's scheduler, under every policy).
 *
 * It is the engine that does it, so a policy need not know: it does not see who is held.
 */
export class PrefixWaits {
  readonly #groups = new Map<Sequence, Group>()
  readonly #leaders = new Map<Sequence, Sequence>()
  /** Waiting requests by what they begin with. */
  readonly #alike = new Map<number, Set<Sequence>>()

  constructor(
    private readonly slots: KvSlots,
    private readonly waiting: WaitingQueue,
    private readonly journal: Journal,
  ) {}

  /** A request waits from now on. */
  joined(sequence: Sequence, now: number): void {
    const key = keyOf(sequence)
    if (key === undefined) return
    const alike = this.#alike.get(key)
    if (alike === undefined) this.#alike.set(key, new Set([sequence]))
    else alike.add(sequence)
    this.hold(sequence, now)
  }

  /** A request waits no more. */
  left(sequence: Sequence): void {
    const key = keyOf(sequence)
    if (key === undefined) return
    const alike = this.#alike.get(key)
    alike?.delete(sequence)
    if (alike?.size === 0) this.#alike.delete(key)
    const leader = this.#leaders.get(sequence)
    if (leader !== undefined) this.#groups.get(leader)?.followers.delete(sequence)
    this.#leaders.delete(sequence)
  }

  /** Holds a waiting request back if that is worth it, and says whether it is held. */
  hold(sequence: Sequence, now: number): boolean {
    if (sequence.state !== 'queued' || sequence.prefixWaits === mostWaits) return false
    if (this.#leaders.has(sequence)) return true
    const found = this.slots.leaderOf(sequence)
    if (found === undefined) return false
    const { sequence: leader, shared } = found
    let group = this.#groups.get(leader)
    if (group === undefined) {
      const ms = patience * this.slots.costs.prefillMs(leader.remainingTokens) + patienceMs
      group = { deadline: now + ms, followers: new Map() }
      this.#groups.set(leader, group)
    }
    group.followers.set(sequence, shared)
    this.#leaders.set(sequence, leader)
    sequence.prefixWaits++
    this.waiting.hold(sequence)
    this.journal.held(sequence)
    return true
  }

  /** A request got a slot and begins to compute: others may wait for it. */
  admitted(leader: Sequence, now: number): void {
    if (leader.remainingTokens < minimumWait) return
    let looks = mostLooks
    for (const sequence of this.#alike.get(keyOf(leader) ?? NaN) ?? []) {
      if (looks-- === 0) return
      this.hold(sequence, now)
    }
  }

  /** A leader has computed more: those for whom it is enough are let go. */
  advanced(leader: Sequence): void {
    const group = this.#groups.get(leader)
    if (group === undefined) return
    const { computedTokens } = leader
    const served = [...group.followers].filter(([, shared]) => shared <= computedTokens)
    this.#letGo(served.map(([sequence]) => sequence))
    if (group.followers.size === 0) this.#groups.delete(leader)
  }

  /** A leader has no slot any more: nobody waits for it. */
  lost(leader: Sequence): void {
    const group = this.#groups.get(leader)
    if (group === undefined) return
    this.#letGo([...group.followers.keys()])
    this.#groups.delete(leader)
  }

  /** Lets those go that have waited long enough. */
  expire(now: number): void {
    for (const [leader, { deadline }] of this.#groups) {
      if (deadline > now) continue
      this.slots.isNoLeader(leader)
      this.lost(leader)
    }
  }

  /** When the next ones have waited long enough, or undefined. */
  next(): number | undefined {
    let next: number | undefined
    for (const { deadline } of this.#groups.values()) next = Math.min(next ?? deadline, deadline)
    return next
  }

  #letGo(sequences: readonly Sequence[]): void {
    for (const sequence of sequences) {
      const leader = this.#leaders.get(sequence)
      if (leader !== undefined) this.#groups.get(leader)?.followers.delete(sequence)
      this.#leaders.delete(sequence)
      this.journal.letGo(sequence)
    }
    this.waiting.unhold(sequences)
  }
}

function keyOf(sequence: Sequence): number | undefined {
  return sequence.request.cache ? sequence.chain.hashes[watchedBlocks - 1] : undefined
}
