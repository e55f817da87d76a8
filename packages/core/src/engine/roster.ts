import type { Backend } from '../contracts/backend.js'
import type { Clock } from '../contracts/clock.js'
import type { EngineStatistics } from '../contracts/engine-statistics.js'
import { CllmError } from '../errors/cllm-error.js'
import type { EndState } from './counters.js'
import { Expiry } from './expiry.js'
import { Forecaster } from './forecaster.js'
import { KvSlots } from './kv-slots.js'
import type { PolicySeat } from './policy-seat.js'
import { PrefixWaits } from './prefix-waits.js'
import { RunningSet } from './running-set.js'
import type { Sequence } from './sequence.js'
import { SlotMover } from './slot-mover.js'
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
  readonly waits: PrefixWaits
  readonly forecaster: Forecaster
  /** Told of each request that ended, when its id is free. */
  onRemoved: (id: string) => void = () => {}
  readonly #mover: SlotMover

  constructor(
    private readonly backend: Backend,
    private readonly seat: PolicySeat,
    clock: Clock,
  ) {
    this.slots = new KvSlots(backend, clock)
    this.waits = new PrefixWaits(this.slots, this.waiting, seat.journal)
    this.#mover = new SlotMover(this.slots, backend)
    this.forecaster = new Forecaster(this, backend.limits)
  }

  get isIdle(): boolean {
    return this.waiting.total === 0 && this.running.size === 0
  }

  statistics(): Pick<EngineStatistics, 'waiting' | 'running' | 'slots'> {
    const { waiting, running, slots } = this
    return { waiting: waiting.total, running: running.size, slots: slots.statistics() }
  }

  find(id: string): Sequence | undefined {
    return this.waiting.get(id) ?? this.running.get(id)
  }

  all(): Sequence[] {
    return [...this.waiting.everyone(), ...this.running.list]
  }

  /** When something is to be done that no request or step brings about, the policy's time included. */
  wakesAt(planned: number | undefined): number | undefined {
    const all = [planned, this.expiry.next(), this.waits.next()]
    const times = all.filter((at) => at !== undefined)
    return times.length === 0 ? undefined : Math.min(...times)
  }

  /** Takes out those whose time has come, with what their clients are told; shows who was held. */
  due(now: number): Iterable<readonly [Sequence, CllmError]> {
    this.waits.expire(now)
    return this.expiry.due(now)
  }

  add(sequence: Sequence): void {
    this.waiting.add(sequence)
    this.waits.joined(sequence, sequence.arrival)
    this.expiry.add(sequence)
    this.forecaster.joined(sequence)
    this.seat.observe({ type: 'queued', request: sequence, now: sequence.arrival })
  }

  /**
   * Gives a waiting request a slot, or returns why it cannot run. One that finds that another one
   * computes its prefix now goes on waiting, unless nothing else can be done: then it is insisted on.
   */
  async admit(sequence: Sequence, now: number, insists = false): Promise<CllmError | undefined> {
    if (!insists && this.waits.hold(sequence, now)) return undefined
    this.waiting.remove(sequence)
    this.waits.left(sequence)
    this.forecaster.left()
    this.running.add(sequence)
    sequence.state = 'prefilling'
    sequence.admittedAt ??= now
    try {
      await this.slots.acquire(sequence)
      const { request, tokens, promptTokens } = sequence
      sequence.sampler = this.backend.createSampler(request.sampling, tokens, promptTokens)
    } catch (error) {
      return CllmError.from(error, 'backend_failed')
    }
    this.waits.admitted(sequence, now)
    this.seat.observe({ type: 'admitted', request: sequence, now })
    return undefined
  }

  /** Admits those that still wait and are not about to leave; returns those that cannot run. */
  async admitAll(
    ids: readonly string[],
    now: number,
    leaving: { has(sequence: Sequence): boolean },
    insists: boolean,
  ): Promise<Map<Sequence, CllmError>> {
    const failed = new Map<Sequence, CllmError>()
    for (const id of ids) {
      const sequence = this.waiting.get(id)
      if (sequence === undefined || leaving.has(sequence)) continue
      const error = await this.admit(sequence, now, insists)
      if (error !== undefined) failed.set(sequence, error)
    }
    return failed
  }

  /** A running request has computed so many more of its tokens. */
  advance(sequence: Sequence, tokens: number): void {
    const { computedTokens, firstComputed = computedTokens } = sequence
    sequence.firstComputed = Math.min(firstComputed, computedTokens)
    sequence.computedTokens += tokens
    this.slots.advanced(sequence)
    this.waits.advanced(sequence)
  }

  /** Brings running requests to better slots, where that is worth it. */
  async tidy(): Promise<void> {
    await this.#mover.move()
  }

  preemptAll(ids: readonly string[], now: number): void {
    for (const id of ids) {
      const sequence = this.running.get(id)
      if (sequence !== undefined) this.preempt(sequence, now)
    }
  }

  /** Takes a running request's slot away; it waits again with its tokens. */
  preempt(sequence: Sequence, now: number): void {
    this.#giveBack(sequence, now)
    sequence.state = 'preempted'
    sequence.preemptions++
    this.waiting.add(sequence)
    this.waits.joined(sequence, now)
    this.seat.observe({ type: 'preempted', request: sequence, now })
  }

  /** Ends a request: its place and its slot are free. */
  remove(sequence: Sequence, state: EndState, now: number): void {
    this.waiting.remove(sequence)
    this.waits.left(sequence)
    this.#giveBack(sequence, now)
    sequence.state = state
    this.forecaster.ended(sequence, state === 'done' && sequence.finish !== 'length')
    this.seat.observe({ type: 'finished', request: sequence, now })
    this.onRemoved(sequence.id)
  }

  #giveBack(sequence: Sequence, now: number): void {
    this.running.remove(sequence)
    this.slots.isNoLeader(sequence)
    this.slots.release(sequence, now)
    sequence.computedTokens = 0
    sequence.sampler?.dispose()
    sequence.sampler = undefined
    this.waits.lost(sequence)
  }
}
