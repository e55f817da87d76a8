import type { Backend, SlotId } from '../../contracts/model/backend.js'
import type { TokenId } from '../../contracts/model/tokenizer.js'
import { truncate } from '../backend-calls.js'
import type { Sequence } from '../requests/sequence.js'

/** What a slot of the draft model holds. */
export interface DraftSlot {
  readonly id: SlotId
  owner: Sequence
  /** The first tokens of the owner that it holds … */
  length: number
  /** … and the drafts behind them. */
  drafted: readonly TokenId[]
  usedAt: number
}

/** Gives the draft model's slots to sequences: each keeps its own until another one needs it. */
export class DraftSlots {
  readonly #slots: (DraftSlot | undefined)[]
  readonly #bySequence = new Map<Sequence, DraftSlot>()
  #uses = 0

  constructor(private readonly backend: Backend) {
    this.#slots = Array.from({ length: backend.limits.slots }, () => undefined)
  }

  /** Tokens of the sequence that its slot holds; 0 while it has none. */
  known(sequence: Sequence): number {
    const slot = this.#bySequence.get(sequence)
    return slot === undefined ? 0 : sharedWith(slot, sequence)
  }

  /** The slot of a sequence, holding nothing but tokens of it; undefined: all are needed by others. */
  take(sequence: Sequence): DraftSlot | undefined {
    const slot = this.#bySequence.get(sequence) ?? this.#give(sequence)
    if (slot === undefined) return undefined
    const held = slot.length + slot.drafted.length
    // The last token is computed again where it was, since what follows it is wanted.
    const shared = Math.min(sharedWith(slot, sequence), sequence.tokens.length - 1)
    slot.length = held > shared ? truncate(this.backend, slot.id, shared) : held
    slot.drafted = []
    slot.usedAt = ++this.#uses
    return slot
  }

  #give(sequence: Sequence): DraftSlot | undefined {
    const best = this.#bestFor(sequence)
    const id = best?.id ?? this.#slots.indexOf(undefined)
    if (id === -1) return undefined
    if (best !== undefined) this.#bySequence.delete(best.owner)
    const length = best === undefined ? 0 : truncate(this.backend, id, usableBy(sequence, best))
    const slot: DraftSlot = { id, owner: sequence, length, drafted: [], usedAt: 0 }
    this.#slots[id] = slot
    this.#bySequence.set(sequence, slot)
    return slot
  }

  /**
   * The slot that nobody needs and that holds the most of the sequence; while one was never used, only
   * one that holds something of it.
   */
  #bestFor(sequence: Sequence): DraftSlot | undefined {
    let best: DraftSlot | undefined
    let most = this.#slots.includes(undefined) ? 1 : 0
    for (const slot of this.#slots) {
      if (slot === undefined || slot.owner.isRunning) continue
      const shared = usableBy(sequence, slot)
      const isOlder = shared === most && slot.usedAt < (best?.usedAt ?? Infinity)
      if (shared <= most && !isOlder) continue
      best = slot
      most = shared
    }
    return best
  }
}

/** How many tokens of the sequence the slot holds, in their order. */
function sharedWith({ owner, length, drafted }: DraftSlot, { tokens }: Sequence): number {
  let shared = owner.tokens === tokens ? length : 0
  while (shared < length && tokens[shared] === owner.tokens[shared]) shared++
  if (shared < length) return shared
  for (const draft of drafted) {
    if (tokens[shared] !== draft) break
    shared++
  }
  return shared
}

/** How many of them it may use. */
const usableBy = (sequence: Sequence, slot: DraftSlot): number =>
  mayShare(slot.owner, sequence) ? sharedWith(slot, sequence) : 0

function mayShare({ request: one }: Sequence, { request: other }: Sequence): boolean {
  return one.scope === other.scope && one.cache && other.cache
}
