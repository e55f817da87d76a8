import { inject, injectable } from 'tsyringe'
import type { Backend } from '../../contracts/model/backend.js'
import * as tokens from '../../tokens.js'
import { RunningSet, WaitingQueue } from './request-sets.js'
import type { Sequence } from './sequence.js'

/**
 * The further samples of requests that ask for several. They have all slots while nobody else wants any, and
 * all but one otherwise; each takes its place at the end of the queue when another sample has ended.
 */
@injectable()
export class SampleLane {
  /** The samples that wait or run, the first of each request, too. */
  readonly all = new Set<Sequence>()
  /** Further samples that policies do not see yet. */
  readonly #held = new Set<Sequence>()

  constructor(
    @inject(tokens.BACKEND) private readonly backend: Backend,
    @inject(WaitingQueue) private readonly waiting: WaitingQueue,
    @inject(RunningSet) private readonly running: RunningSet,
  ) {}

  /** A sample is in the queue; returns whether it is held back. */
  add(sequence: Sequence): boolean {
    this.all.add(sequence)
    if (!isFurther(sequence)) return false
    this.hold(sequence)
    return true
  }

  /** Holds a sample back that waits. */
  hold(sequence: Sequence): void {
    this.#held.add(sequence)
    this.waiting.hold(sequence)
  }

  /** A sample has ended. */
  remove(sequence: Sequence): void {
    this.all.delete(sequence)
    this.#held.delete(sequence)
  }

  /** The sample that gives its slot to a request that waits, as samples have all of them. */
  victim(freeSlots: number): Sequence | undefined {
    if (freeSlots > 0 || !this.#doOthersWait) return undefined
    const { list } = this.running
    return list.length > 1 && list.every(isSample) ? list.findLast(isFurther) : undefined
  }

  /** Ends the wait of the samples whose turn has come; returns them. */
  release(now: number): readonly Sequence[] {
    if (this.#held.size === 0) return []
    const { slots } = this.backend.limits
    const running = this.running.list.filter(isSample).length
    const isAlone = running === this.running.size && !this.#doOthersWait
    const limit = isAlone ? slots : Math.max(1, slots - 1)
    const room = limit - running - this.#shown.length
    const released = [...this.#held].slice(0, Math.max(0, room))
    for (const sequence of released) this.#held.delete(sequence)
    this.waiting.unhold(released, now)
    return released
  }

  /** Samples that wait like any other request. */
  get #shown(): Sequence[] {
    return [...this.all].filter((one) => one.isWaiting && !this.#held.has(one))
  }

  get #doOthersWait(): boolean {
    const own = this.#shown.filter((one) => isFurther(one) && this.waiting.has(one.id)).length
    return this.waiting.size > own
  }
}

const isSample = ({ request }: Sequence): boolean => request.sample !== undefined

const isFurther = ({ request }: Sequence): boolean => (request.sample ?? 0) > 0
