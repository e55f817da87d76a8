import type { Clock } from '../../../contracts/clock.js'
import type { Slot } from '../../engine-parts.js'
import type { SequenceRequest } from '../../requests/sequence.js'
import type { BlockChain } from '../block-chain.js'
import { isFree } from '../prefix-index.js'
import type { KeptState } from './saved-state.js'
import type { StateCache } from './state-cache.js'
import { commonLength } from './state-index.js'

/** A slot whose content is to be saved and kept. */
interface Pin {
  readonly slot: Slot
  /** What it held then. */
  readonly chain: BlockChain
  readonly length: number
  /** Until when; undefined: for good. */
  readonly kept: KeptState | undefined
}

/**
 * Saves what requests that have ended ask for: when nothing decodes, when there is time for it, or when the
 * slot is about to lose it. Until then the slot keeps it.
 */
export class Pins {
  /** The one that was asked for last comes last. */
  readonly #bySlot = new Map<Slot, Pin>()

  constructor(
    private readonly states: StateCache,
    private readonly clock: Clock,
  ) {}

  /** Whether something may be saved now. */
  get isDue(): boolean {
    for (const slot of this.#bySlot.keys()) if (isFree(slot)) return true
    return false
  }

  /**
   * A request has ended, and its slot is idle. What a slot holds is saved as it is then: the last turn of a
   * conversation stands for all.
   */
  add(
    slot: Slot,
    { pin, keepMs, tenant }: Pick<SequenceRequest, 'pin' | 'keepMs' | 'tenant'>,
    now: number,
  ): void {
    const { chain, length } = slot
    if (chain === undefined || !this.states.isOn) return
    let kept = pin || keepMs === undefined ? undefined : { until: now + keepMs, tenant }
    if (!pin && kept === undefined) return
    const older = this.#bySlot.get(slot)
    if (older !== undefined && isThere(older)) kept = longer(kept, older.kept)
    this.#bySlot.delete(slot)
    this.#bySlot.set(slot, { slot, chain, length, kept })
  }

  /** Saves what there is time for. */
  async settle(): Promise<void> {
    for (const pin of this.#bySlot.values()) {
      const { slot } = pin
      if (this.#isOver(pin)) continue
      if (!isFree(slot) || !this.states.hasTimeToSave(slot.length)) continue
      this.#bySlot.delete(slot)
      if (isThere(pin)) await this.states.pin(slot, pin.kept)
    }
  }

  /** An idle slot is about to lose what is behind its first `kept` tokens. */
  async beforeLoss(slot: Slot, kept: number): Promise<void> {
    const pin = this.#bySlot.get(slot)
    if (pin === undefined || kept >= pin.length || this.#isOver(pin)) return
    this.#bySlot.delete(slot)
    // Clients may ask for a while of theirs as often as they want to, and not at the cost of others.
    const mayBeSkipped = pin.kept !== undefined && !this.states.hasTimeToSave(slot.length)
    if (mayBeSkipped) this.states.transfer.onSkipped()
    else if (isThere(pin)) await this.states.pin(slot, pin.kept)
  }

  /** Drops what was to be kept until now. */
  #isOver(pin: Pin): boolean {
    const isOver = pin.kept !== undefined && pin.kept.until <= this.clock.now()
    if (isOver) this.#bySlot.delete(pin.slot)
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
