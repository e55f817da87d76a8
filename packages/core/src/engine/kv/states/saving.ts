import type { SlotId } from '../../../contracts/model/backend.js'
import type { Sequence, SequenceRequest } from '../../requests/sequence.js'
import { type BlockChain, blockSize, commonLength, minimumWait } from '../block-chain.js'
import type { StateCache } from './state-cache.js'
import type { Clock } from '../../../contracts/services.js'
import type { Slot } from '../../engine-parts.js'
import type { KeptState } from './state-index.js'
import type { EngineCosts } from '../../costs/engine-costs.js'
import type { LoopWork } from '../../loop/between-steps.js'

/** Tokens at the end of a prompt that may differ in the next turn: the template's opening of the answer. */
const opening = 8

/** A checkpoint to save: its slot now holds exactly the first `length` tokens of the chain. */
interface Due {
  readonly slot: SlotId
  readonly chain: BlockChain
  readonly length: number
}

/** A slot whose content a client wants to be kept. */
interface Pin {
  readonly slot: Slot
  /** The slot's content when the request ended. */
  readonly chain: BlockChain
  readonly length: number
  readonly kept: KeptState
}

/** A slot is saved ahead after this idle time, and after `restShare` times the cost of saving. */
const leastRestMs = 1000
const restShare = 10

/** Milliseconds per byte that saving into new memory takes longer; measured: 1.5 to 2.5 ms per megabyte. */
const newMemoryMs = 2e-6

/**
 * Decides when the content of a slot is saved: when it is about to be lost, if it is worth saving
 * (`StateWorth.isWorthSaving`) and there is time for it. And before that:
 *
 * Checkpoints, for models whose slots cannot be cut: where two conversations began to differ, where another request
 * waits for a prefix, and at the end of each prompt, as the next prompt often renders the answer differently. A prompt
 * chunk ends there, and the checkpoint is saved before the next step.
 *
 * Pins, which ended requests have asked for: saved when nothing decodes, when there is time for it, or when the slot
 * is about to lose the content.
 *
 * Ahead: idle slots are saved while the engine has no work. Not at once, as the next turn of a conversation often comes
 * soon and would have to wait.
 */
export class StateSaver implements LoopWork {
  /** Checkpoints to save before the next step. */
  readonly #due: Due[] = []
  /** In the order in which they were asked for. */
  readonly #pins = new Map<Slot, Pin>()
  /** Contents that were saved ahead, each once: where not all fit, they would evict each other again and again. */
  readonly #saved = new WeakMap<BlockChain, number>()

  constructor(
    private readonly slots: readonly Slot[],
    private readonly states: StateCache,
    private readonly clock: Clock,
    private readonly costs: EngineCosts,
  ) {}

  /** Whether something may have to be saved before the next step. */
  get isDue(): boolean {
    if (this.#due.length > 0) return true
    for (const { owner } of this.#pins.keys()) if (owner === undefined) return true
    return false
  }

  /** Saves the due checkpoints, and the pins for which there is time. */
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
   * @param known - how many leading tokens it shares with other conversations, reusable or not
   */
  planCheckpoints(sequence: Sequence, known: number): void {
    sequence.stops = []
    if (!sequence.request.cache) return
    this.wantCheckpoint(sequence, known)
    this.wantCheckpoint(sequence, sequence.promptTokens - 1 - opening)
  }

  /** Plans a checkpoint after about this many tokens. */
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
   * A request that asked for a pin has ended, and its slot is idle. Only the slot's latest content is saved: the last
   * turn of a conversation includes the earlier ones.
   */
  addPin(slot: Slot, { pin, keepMs, tenant }: SequenceRequest, now: number): void {
    const { chain, length } = slot
    if (chain === undefined || !this.states.isOn) return
    let kept: KeptState = { until: pin ? Infinity : now + (keepMs ?? 0), tenant }
    const older = this.#pins.get(slot)
    if (older !== undefined && older.kept.until > kept.until && isThere(older)) kept = older.kept
    this.#pins.delete(slot)
    this.#pins.set(slot, { slot, chain, length, kept })
  }

  /**
   * Whether an idle slot can lose its content beyond the first `kept` tokens without keeping decoding requests waiting
   * for too long. If not, memory to save it into is being made ready.
   */
  canBeLost(slot: Slot, kept: number): boolean {
    if (!this.states.worth.isWorthSaving(slot, kept)) return true
    const bytes = this.costs.states.bytesOf(slot.length)
    return this.#timeFor(bytes) === 'new memory' || this.states.prepareMemory(bytes)
  }

  /**
   * An idle slot is about to lose its content beyond the first `kept` tokens: saves it if it is pinned or worth saving.
   * False where it was worth saving, but there was no time.
   */
  async beforeLoss(slot: Slot, kept: number): Promise<boolean> {
    const { transfer, worth } = this.states
    const pin = this.#pins.get(slot)
    if (pin !== undefined && kept < pin.length && !this.#isOver(pin)) {
      this.#pins.delete(slot)
      // Clients may ask for pins as often as they like: other requests must not pay for it.
      if (pin.kept.until < Infinity && !this.#hasTime(slot)) transfer.counts.skipped++
      else if (isThere(pin)) await this.states.pin(slot, pin.kept)
    }
    if (!worth.isWorthSaving(slot, kept)) return true
    const hasTime = this.#timeFor(this.costs.states.bytesOf(slot.length)) !== 'none'
    if (hasTime) await transfer.save(slot)
    else transfer.counts.skipped++
    return hasTime
  }

  /** Whether a slot can be saved without delaying decoding requests too long; may have memory made ready first. */
  #hasTime({ length }: Slot): boolean {
    const bytes = this.costs.states.bytesOf(length)
    const time = this.#timeFor(bytes)
    return time === 'new memory' || (time === 'used memory' && this.states.prepareMemory(bytes))
  }

  /** Into which kind of memory this many bytes can be saved without keeping decoding requests waiting too long. */
  #timeFor(bytes: number): 'new memory' | 'used memory' | 'none' {
    const { states, pauses } = this.costs
    const ms = states.saveMs(bytes)
    if (pauses.canSave(ms + newMemoryMs * bytes)) return 'new memory'
    return pauses.canSave(ms) ? 'used memory' : 'none'
  }

  /** Saves one idle slot that is due. Returns when to call again; undefined: no slot will be due. */
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

  /** Saves the idle slots, if there are files that outlive the engine. */
  async onClose(): Promise<void> {
    const { hasFiles, transfer, worth } = this.states
    if (!hasFiles) return
    for (const slot of this.slots) {
      if (slot.owner === undefined && worth.isWorthSaving(slot)) await transfer.save(slot)
    }
    await this.states.close()
  }

  /** Whether the pin has expired; then it is dropped. */
  #isOver(pin: Pin): boolean {
    const isOver = pin.kept.until <= this.clock.now()
    if (isOver) this.#pins.delete(pin.slot)
    return isOver
  }
}

/** Whether the slot still begins with this content; a later request may have appended to it. */
const isThere = ({ slot, chain, length }: Pin): boolean =>
  slot.chain !== undefined &&
  slot.length >= length &&
  commonLength(slot.chain, chain, length) === length
