import type { Backend, SlotId } from '../contracts/backend.js'
import type { SlotStatistics } from '../contracts/engine-client.js'
import type { TokenId } from '../contracts/tokenizer.js'
import type { Sequence } from './sequence.js'

/**
 * Fewer shared tokens than this are not worth giving up the backend's favourite slot: every prompt
 * shares the begin-of-sequence token, and many their first words.
 */
const minimumReuse = 16

/** From this many tokens on, copying a prefix (14 to 60 ms measured) beats computing it. */
const minimumCopy = 64

interface Slot {
  readonly id: SlotId
  /** The tokens whose keys and values it holds are the first `length` of these. */
  tokens: readonly TokenId[]
  length: number
  owner: Sequence | undefined
  usedAt: number
}

/** A slot that holds the first tokens of a sequence, and how many. */
interface Match {
  readonly slot: Slot
  readonly shared: number
}

/** Who holds which tokens: gives slots to sequences and reuses what finished ones left behind. */
export class KvSlots {
  readonly #slots: Slot[]
  #free: number

  constructor(private readonly backend: Backend) {
    const length = backend.limits.slots
    this.#slots = Array.from({ length }, (_, id) => {
      return { id, tokens: [], length: 0, owner: undefined, usedAt: 0 }
    })
    this.#free = length
  }

  get freeCount(): number {
    return this.#free
  }

  /** How many tokens of a waiting sequence need not be computed if it is admitted now. */
  lookUp(sequence: Sequence): number {
    return this.#reusable(sequence)?.shared ?? 0
  }

  /** Gives the sequence a slot, with as much of its prefix as can be had without computing. */
  async acquire(sequence: Sequence): Promise<void> {
    const { slot, source, shared } = this.#choose(sequence)
    slot.owner = sequence
    this.#free--
    sequence.slot = slot.id
    try {
      sequence.computedTokens = await this.#fill(slot, source, shared)
    } catch (error) {
      // What it holds now is anyone's guess, and a slot taken for empty must be empty.
      this.backend.release(slot.id)
      throw error
    }
  }

  /** Takes the slot back and keeps its tokens for whoever shares them. */
  release(sequence: Sequence, now: number): void {
    const slot = this.#slots[sequence.slot ?? -1]
    if (slot === undefined || slot.owner !== sequence) return
    slot.tokens = sequence.tokens
    slot.length = sequence.computedTokens
    slot.usedAt = now
    slot.owner = undefined
    sequence.slot = undefined
    this.#free++
  }

  statistics(): SlotStatistics[] {
    return this.#slots.map((slot) => ({
      slot: slot.id,
      request: slot.owner?.id,
      state: slot.owner?.state ?? 'idle',
      tokens: held(slot),
    }))
  }

  /** Which slot, and which one's tokens it should begin with. */
  #choose(sequence: Sequence): { slot: Slot; source: Slot; shared: number } {
    const free = this.#slots.filter(isFree).toSorted(cheapestToLose)
    const used = this.#slots.filter((slot) => slot.owner !== undefined).map((slot) => slot.id)
    const freeIds = free.map((slot) => slot.id)
    const preferredId = this.backend.preferSlot(freeIds, used)
    const preferred = this.#slots[preferredId]
    if (preferred === undefined || !isFree(preferred)) {
      throw new RangeError(
        `preferSlot: expected one of ${freeIds.join()}, instead got ${preferredId}`,
      )
    }
    const found = this.#reusable(sequence)
    if (found === undefined) {
      const shared = sequence.request.cache ? sharedLength(preferred, sequence) : 0
      return { slot: preferred, source: preferred, shared }
    }
    const { slot: source, shared } = found
    if (!isFree(source)) return { slot: preferred, source, shared }
    // Taking a slot of which only a small part fits would throw a conversation away that may go on.
    const wasteful = shared * 2 < source.length && shared >= minimumCopy
    return { slot: wasteful && preferred.length === 0 ? preferred : source, source, shared }
  }

  /** Where the sequence's prefix is taken from when it is admitted, unless it is not worth it. */
  #reusable(sequence: Sequence): Match | undefined {
    if (!sequence.request.cache) return undefined
    const idle = this.#longest(sequence, isFree)
    const any = this.#longest(sequence, () => true)
    const least = idle?.shared ?? 0
    if (any !== undefined && any.shared - least >= minimumCopy) return any
    return least < minimumReuse ? undefined : idle
  }

  async #fill(slot: Slot, source: Slot, shared: number): Promise<number> {
    if (source !== slot) return await this.backend.copyPrefix(source.id, slot.id, shared)
    if (slot.length === 0) return 0
    if (shared > 0) return this.backend.truncate(slot.id, shared)
    this.backend.release(slot.id)
    return 0
  }

  #longest(sequence: Sequence, filter: (slot: Slot) => boolean): Match | undefined {
    let best: Match | undefined
    for (const slot of this.#slots) {
      if (!filter(slot)) continue
      const shared = sharedLength(slot, sequence)
      if (shared > (best?.shared ?? 0)) best = { slot, shared }
    }
    return best
  }
}

const isFree = (slot: Slot): boolean => slot.owner === undefined

const held = (slot: Slot): number => slot.owner?.computedTokens ?? slot.length

/** Empty slots first, then the least recently used. */
const cheapestToLose = (a: Slot, b: Slot): number =>
  Number(a.length > 0) - Number(b.length > 0) || a.usedAt - b.usedAt || a.id - b.id

/** Tokens that both begin with, but for the last one, whose logits must be computed anew. */
function sharedLength(slot: Slot, sequence: Sequence): number {
  const theirs = slot.owner?.tokens ?? slot.tokens
  const limit = Math.min(held(slot), sequence.tokens.length - 1)
  let shared = 0
  while (shared < limit && theirs[shared] === sequence.tokens[shared]) shared++
  return shared
}
