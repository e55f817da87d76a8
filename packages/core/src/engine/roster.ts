import type { Backend } from '../contracts/backend.js'
import { CllmError } from '../errors/cllm-error.js'
import type { EndState } from './counters.js'
import { Expiry } from './expiry.js'
import { KvSlots } from './kv-slots.js'
import type { PolicySeat } from './policy-seat.js'
import { RunningSet } from './running-set.js'
import type { Sequence } from './sequence.js'
import { WaitingQueue } from './waiting-queue.js'

/**
 * Who waits, who runs, and who has which slot. It moves requests between their states and tells the
 * policy. Everything but `add` happens between two steps.
 */
export class Roster {
  readonly waiting = new WaitingQueue()
  readonly running = new RunningSet()
  readonly expiry = new Expiry()
  readonly slots: KvSlots

  constructor(
    private readonly backend: Backend,
    private readonly seat: PolicySeat,
  ) {
    this.slots = new KvSlots(backend)
  }

  get isIdle(): boolean {
    return this.waiting.size === 0 && this.running.size === 0
  }

  find(id: string): Sequence | undefined {
    return this.waiting.get(id) ?? this.running.get(id)
  }

  all(): Sequence[] {
    return [...this.waiting, ...this.running.list]
  }

  add(sequence: Sequence): void {
    this.waiting.add(sequence)
    this.expiry.add(sequence)
    this.seat.observe({ type: 'queued', request: sequence, now: sequence.arrival })
  }

  /** Gives a waiting request a slot, or returns why it cannot run. */
  async admit(sequence: Sequence, now: number): Promise<CllmError | undefined> {
    this.waiting.remove(sequence)
    this.running.add(sequence)
    const isFirst = sequence.admittedAt === undefined
    sequence.state = 'prefilling'
    sequence.admittedAt ??= now
    try {
      await this.slots.acquire(sequence)
      if (isFirst) sequence.cachedTokens = sequence.computedTokens
      sequence.sampler = this.backend.createSampler(sequence.request.sampling, sequence.tokens)
    } catch (error) {
      return CllmError.from(error, 'backend_failed')
    }
    this.seat.observe({ type: 'admitted', request: sequence, now })
    return undefined
  }

  /** Takes a running request's slot away; it waits again with its tokens. */
  preempt(sequence: Sequence, now: number): void {
    this.#giveBack(sequence, now)
    sequence.state = 'preempted'
    sequence.preemptions++
    this.waiting.add(sequence)
    this.seat.observe({ type: 'preempted', request: sequence, now })
  }

  /** Ends a request: its place and its slot are free. */
  remove(sequence: Sequence, state: EndState, now: number): void {
    this.waiting.remove(sequence)
    this.#giveBack(sequence, now)
    sequence.state = state
    this.seat.observe({ type: 'finished', request: sequence, now })
  }

  #giveBack(sequence: Sequence, now: number): void {
    this.running.remove(sequence)
    this.slots.release(sequence, now)
    sequence.computedTokens = 0
    sequence.sampler?.dispose()
    sequence.sampler = undefined
  }
}
