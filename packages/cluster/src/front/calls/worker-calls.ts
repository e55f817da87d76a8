import { CllmError, type Clock } from '@cllm/core'
import type { FromEngine } from '@cllm/host'
import { type Member, type Members, noWorker, requestTooLarge } from '../members.js'
import type { Placing } from '../placing/placing.js'
import type { Sleep } from '../sleep-watch.js'
import { ActivityCursors } from './merge-activity.js'
import type { CallContext, CallKind, CallMessage, CallPlan } from './call-kind.js'
import { kindOf } from './call-table.js'
import { PatientCalls } from './patient-calls.js'
import { LastStatistics } from './last-statistics.js'
import { withOwnIds } from '../../link/request-ids.js'

/** A call of a client, as it goes to one or several workers. */
interface Call extends Pick<CallPlan, 'merge'> {
  readonly message: CallMessage
  readonly kind: CallKind
  readonly answers: Map<string, unknown>
  readonly waitsFor: Set<string>
  deaths: number
  /** From when on one answer is enough. */
  readonly dueAt: number
}

type Answer = Extract<FromEngine, { readonly type: 'result' | 'error' }>

/** What the calls need of their front. */
export interface CallingFront {
  readonly answer: (answer: Answer) => void
  /** Messages that it has refused so far. */
  readonly refusedMessages: () => number
  readonly clock: Clock
  /** Milliseconds for which a call waits for a worker while there is none. */
  readonly patienceMs: number
  readonly sleep: Sleep
}

/** The calls of a front's clients, at the workers. */
export class WorkerCalls {
  readonly #open = new Map<number, Call>()
  readonly #waiting: PatientCalls
  readonly #statistics = new LastStatistics()
  readonly #context: CallContext

  constructor(
    private readonly members: Members,
    placing: Placing,
    private readonly front: CallingFront,
  ) {
    const { clock, sleep, patienceMs, refusedMessages } = front
    const [statistics, cursors] = [this.#statistics, new ActivityCursors()]
    this.#context = { members, placing, statistics, cursors, refusedMessages }
    const onExpired = ({ call }: CallMessage) => this.#fail(call, noWorker())
    this.#waiting = new PatientCalls(clock, sleep, patienceMs, onExpired)
  }

  /** There may be a worker: calls that wait for any are made. */
  retry(): void {
    if (!this.#isAnyThere) return
    for (const message of this.#waiting.take()) this.make(message)
  }

  make(message: CallMessage): void {
    const kind = kindOf(message.name)
    if (!this.#isAnyThere && kind.isPatient) return this.#waiting.add(message)
    try {
      this.#send(message, kind, kind.plan(message, this.#context))
    } catch (error) {
      this.#fail(message.call, error)
    }
  }

  leave(call: number): void {
    this.#waiting.delete(call)
    const open = this.#open.get(call)
    this.#open.delete(call)
    for (const id of open?.waitsFor ?? []) this.members.get(id)?.link.send({ type: 'leave', call })
  }

  /** A worker answers. */
  onAnswer({ record: { id }, link }: Member, answer: Answer): void {
    const open = this.#open.get(answer.call)
    if (open === undefined || !open.waitsFor.delete(id)) return
    if (answer.type === 'result') {
      const { tellsIds = false, onAnswer } = open.kind
      const value = tellsIds ? withOwnIds(answer.value, link.id) : answer.value
      open.answers.set(id, value)
      onAnswer?.(id, value, this.#context)
    } else if (open.kind.partialMs === undefined || open.answers.size + open.waitsFor.size === 0) {
      this.#open.delete(answer.call)
      return this.front.answer(answer)
    }
    this.#finish(open)
  }

  /** A worker is lost: calls to it go elsewhere, or do without it, or fail. */
  onLost(worker: string): void {
    this.#statistics.lose(worker)
    // Some are made again meanwhile.
    const all = [...this.#open.values()]
    for (const open of all) {
      if (!open.waitsFor.delete(worker)) continue
      const { message, kind } = open
      this.#open.delete(message.call)
      if (open.answers.size + open.waitsFor.size > 0) {
        this.#open.set(message.call, open)
        this.#finish(open)
      } else if (kind.isPatient && open.deaths < 3) {
        this.make(message)
        const again = this.#open.get(message.call)
        if (again !== undefined) again.deaths = open.deaths + 1
      } else {
        this.#fail(message.call, new CllmError('engine_unavailable', 'The worker is gone'))
      }
    }
  }

  /** Ends all calls. */
  failAll(error: CllmError): void {
    for (const { call } of this.#waiting.take()) this.#fail(call, error)
    for (const call of this.#open.keys()) this.#fail(call, error)
  }

  get #isAnyThere(): boolean {
    if (this.front.sleep.isCatchingUp) return false
    return this.members.all.some(({ report }) => report !== undefined)
  }

  #send(message: CallMessage, kind: CallKind, { to, messageTo, merge }: CallPlan): void {
    const waitsFor = new Set(to.map(({ record }) => record.id))
    const answers = new Map<string, unknown>()
    const { clock } = this.front
    const limitMs = to.length === 1 ? Infinity : (kind.partialMs ?? Infinity)
    const dueAt = clock.now() + limitMs
    this.#open.set(message.call, { message, kind, answers, waitsFor, merge, deaths: 0, dueAt })
    const isSent = to.map((member) => member.link.send(messageTo?.(member) ?? message))
    if (isSent.includes(false)) return this.#fail(message.call, requestTooLarge())
    if (dueAt === Infinity) return
    clock.at(dueAt, () => {
      const open = this.#open.get(message.call)
      if (open !== undefined) this.#finish(open)
    })
  }

  #finish(open: Call): void {
    const isEnough = open.answers.size > 0 && this.front.clock.now() >= open.dueAt
    if (open.waitsFor.size > 0 && !isEnough) return
    const { call } = open.message
    this.#open.delete(call)
    this.front.answer({ type: 'result', call, value: open.merge(open.answers) })
  }

  #fail(call: number, error: unknown): void {
    this.#open.delete(call)
    this.front.answer({ type: 'error', call, error: CllmError.from(error).serialize() })
  }
}
