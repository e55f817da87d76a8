import type { SlotId } from '../../../contracts/model/backend.js'
import type { Sequence, SequenceRequest } from '../../requests/sequence.js'
import { type BlockChain, blockSize, commonLength, minimumWait } from '../block-chain.js'
import type { StateCache } from './state-cache.js'
import type { Clock } from '../../../contracts/services.js'
import type { Slot } from '../../engine-parts.js'
import type { KeptState } from './state-index.js'
import type { EngineCosts } from '../../costs/engine-costs.js'
import type { LoopWork } from '../../loop/between-steps.js'

/** Tokens at the end of a prompt that the next turn may write in another way: the opening of an answer. */
const opening = 8

/** A checkpoint that is to be saved: its slot holds these first tokens of the chain, and no more. */
interface Due {
  readonly slot: SlotId
  readonly chain: BlockChain
  readonly length: number
}

/** A slot whose content is to be saved and kept. */
interface Pin {
  readonly slot: Slot
  /** What it held then. */
  readonly chain: BlockChain
  readonly length: number
  /** Until when; undefined: for good. */
  readonly kept: KeptState | undefined
}

/** A slot that was idle for this long, and for so many times what saving takes, is saved ahead. */
const leastRestMs = 1000
const restShare = 10

/** Milliseconds that a byte of new memory adds to saving: measured were 1.5 to 2.5 for a megabyte. */
const newMemoryMs = 2e-6

/**
 * Decides when what a slot holds is saved: when it is about to be lost, where it is worth saving
 * (`StateWorth.isWorthSaving`) and there is time for it; and before that:
 *
 * Checkpoints, for models whose slots cannot be cut: where two conversations have been seen to part, where
 * another request waits for a prefix, and at the end of each prompt, as an answer is often written into the
 * next prompt in another way. A chunk of the prompt ends there, and the checkpoint is saved before the next
 * step.
 *
 * Pins, what requests that have ended ask for: when nothing decodes, when there is time for it, or when the
 * slot is about to lose it. Until then the slot keeps it.
 *
 * Ahead, while there is nothing to compute, idle slots that would be lost otherwise. Not at once: the next
 * turn of a conversation often comes soon, and would wait for it.
 */
export class StateSaver implements LoopWork {
  /** Checkpoints that are to be saved before the next step. */
  readonly #due: Due[] = []
  /** The one that was asked for last comes last. */
  readonly #pins = new Map<Slot, Pin>()
  /** What was saved ahead, once: where not all fits, one would drop the other for ever. */
  readonly #saved = new WeakMap<BlockChain, number>()

  constructor(
    private readonly slots: readonly Slot[],
    private readonly states: StateCache,
    private readonly clock: Clock,
    private readonly costs: EngineCosts,
  ) {}

  /** Whether something is, or may be, saved before the next step. */
  get isDue(): boolean {
    if (this.#due.length > 0) return true
    for (const { owner } of this.#pins.keys()) if (owner === undefined) return true
    return false
  }

  /** Saves the checkpoints that are due, and the pins that there is time for. */
  async settle(): Promise<void> {
    const { states } = this
    for (const { slot, chain, length } of this.#due.splice(0)) {
      if (this.#timeFor(states.transfer.checkpointBytes) === 'none')
        states.transfer.counts.skipped++
      else await states.transfer.save({ id: slot, chain, length }, true)
    }
    for (const pin of this.#pins.values()) {
      const { slot } = pin
      if (this.#isOver(pin)) continue
      if (slot.owner !== undefined || !this.#hasTime(slot)) continue
      this.#pins.delete(slot)
      if (isThere(pin)) await states.pin(slot, pin.kept)
    }
  }

  /**
   * Plans the checkpoints of a sequence that got its slot.
   *
   * @param known - how many of its tokens other conversations began with, whatever can be used of them
   */
  planCheckpoints(sequence: Sequence, known: number): void {
    sequence.stops = []
    if (!sequence.request.cache) return
    this.wantCheckpoint(sequence, known)
    this.wantCheckpoint(sequence, sequence.promptTokens - 1 - opening)
  }

  /** Wants one after about this many tokens. */
  wantCheckpoint(sequence: Sequence, place: number): void {
    const length = place - (place % blockSize)
    const { chain, computedTokens, stops } = sequence
    if (this.states.cutsAnywhere || stops.includes(length)) return
    if (length < minimumWait || length <= computedTokens || length >= sequence.tokens.length) return
    if (this.states.hasCheckpoint(chain, length)) return
    sequence.stops = [...stops, length].toSorted((a, b) => a - b)
  }

  /** The sequence has computed more. */
  onAdvanced({ slot, chain, computedTokens, stops }: Sequence): void {
    while (stops.length > 0 && stops[0]! <= computedTokens) {
      const length = stops.shift()!
      if (length === computedTokens && slot !== undefined) this.#due.push({ slot, chain, length })
    }
  }

  /**
   * A request has ended, and its slot is idle. What a slot holds is saved as it is then: the last turn of a
   * conversation stands for all.
   */
  addPin(slot: Slot, { pin, keepMs, tenant }: SequenceRequest, now: number): void {
    const { chain, length } = slot
    if (chain === undefined || !this.states.isOn) return
    let kept = pin || keepMs === undefined ? undefined : { until: now + keepMs, tenant }
    const older = this.#pins.get(slot)
    if (older !== undefined && isThere(older)) kept = longer(kept, older.kept)
    this.#pins.delete(slot)
    this.#pins.set(slot, { slot, chain, length, kept })
  }

  /**
   * Whether an idle slot can lose what is behind its first `kept` tokens without keeping requests that decode
   * waiting for longer than they may; otherwise memory to save it into is being made ready.
   */
  canBeLost(slot: Slot, kept: number): boolean {
    if (!this.states.worth.isWorthSaving(slot, kept)) return true
    const bytes = this.costs.states.bytesOf(slot.length)
    return this.#timeFor(bytes) === 'new memory' || this.states.prepareMemory(bytes)
  }

  /**
   * An idle slot is about to lose what is behind its first `kept` tokens, which is saved where it is pinned or
   * worth that; false where it is worth it, and there was no time.
   */
  async beforeLoss(slot: Slot, kept: number): Promise<boolean> {
    const { transfer, worth } = this.states
    const pin = this.#pins.get(slot)
    if (pin !== undefined && kept < pin.length && !this.#isOver(pin)) {
      this.#pins.delete(slot)
      // Clients may ask for a while of theirs as often as they want to, and not at the cost of others.
      if (pin.kept !== undefined && !this.#hasTime(slot)) transfer.counts.skipped++
      else if (isThere(pin)) await this.states.pin(slot, pin.kept)
    }
    if (!worth.isWorthSaving(slot, kept)) return true
    const hasTime = this.#timeFor(this.costs.states.bytesOf(slot.length)) !== 'none'
    if (hasTime) await transfer.save(slot)
    else transfer.counts.skipped++
    return hasTime
  }

  /** Whether requests that decode may wait until a slot is saved; memory for it may have to be made ready first. */
  #hasTime({ length }: Slot): boolean {
    const bytes = this.costs.states.bytesOf(length)
    const time = this.#timeFor(bytes)
    return time === 'new memory' || (time === 'used memory' && this.states.prepareMemory(bytes))
  }

  /** Into which memory this many bytes can be saved while requests that decode wait no longer than they may. */
  #timeFor(bytes: number): 'new memory' | 'used memory' | 'none' {
    const { states, pauses } = this.costs
    const ms = states.saveMs(bytes)
    if (pauses.canSave(ms + newMemoryMs * bytes)) return 'new memory'
    return pauses.canSave(ms) ? 'used memory' : 'none'
  }

  /** Saves one idle slot whose time has come. Returns when to ask again, if at all. */
  async onIdle(): Promise<number | undefined> {
    const { hasFiles, transfer, worth } = this.states
    if (hasFiles) this.states.onWork(false)
    else if (transfer.counts.saved + transfer.counts.skipped === 0) return undefined
    const { states } = this.costs
    const now = this.clock.now()
    let next = Infinity
    for (const slot of this.slots) {
      const { chain, owner, length } = slot
      const isNew = chain !== undefined && this.#saved.get(chain) !== length
      if (owner !== undefined || !isNew || !worth.isWorthSaving(slot)) continue
      const restMs = Math.max(leastRestMs, restShare * states.saveMs(states.bytesOf(length)))
      const at = slot.usedAt + restMs
      next = Math.min(next, at)
      if (at > now) continue
      this.#saved.set(chain, length)
      await transfer.save(slot)
      return now
    }
    return next === Infinity ? undefined : next
  }

  /** Saves what idle slots hold, where that outlives the engine. */
  async onClose(): Promise<void> {
    const { hasFiles, transfer, worth } = this.states
    if (!hasFiles) return
    for (const slot of this.slots) {
      if (slot.owner === undefined && worth.isWorthSaving(slot)) await transfer.save(slot)
    }
    await this.states.close()
  }

  /** Drops what was to be kept until now. */
  #isOver(pin: Pin): boolean {
    const isOver = pin.kept !== undefined && pin.kept.until <= this.clock.now()
    if (isOver) this.#pins.delete(pin.slot)
    return isOver
  }
}

/** Of none, which is for good, and times the longest. */
function longer(one: KeptState | undefined, other: KeptState | undefined): KeptState | undefined {
  if (one === undefined || other === undefined) return undefined
  return other.until > one.until ? other : one
}

/** Whether the slot holds it still, and maybe more: a request may have gone on with it. */
const isThere = ({ slot, chain, length }: Pin): boolean =>
  slot.chain !== undefined &&
  slot.length >= length &&
  commonLength(slot.chain, chain, length) === length
