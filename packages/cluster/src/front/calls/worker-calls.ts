import { CllmError } from '@cllm/core'
import { type FromEngine, Waiting, type Waits } from '@cllm/host'
import { isUp, type Member, type Members, noWorker, requestTooLarge } from '../members.js'
import type { Placing, PlacingParts } from '../placing/placing.js'
import { ActivityCursors, LastStatistics } from './merge-answers.js'
import type { CallContext, CallKind, CallMessage, CallPlan } from './call-table.js'
import { kindOf } from './call-table.js'
import { withOwnIds } from '../../messages.js'

/** A client's call to one or several workers. */
class Call implements Waits {
  readonly kind: CallKind
  readonly answers = new Map<string, unknown>()
  /** The workers that have not answered; empty: the call has no worker yet. */
  waitsFor = new Set<string>()
  merge: CallPlan['merge'] = () => undefined
  /** The time from which one answer is enough. */
  dueAt = Infinity
  readonly hasBegun = false
  readonly expiresAt = Infinity

  /** @param deaths the number of workers that were lost before they answered */
  constructor(
    readonly message: CallMessage,
    readonly deaths: number,
  ) {
    this.kind = kindOf(message.name)
  }
}

type Answer = Extract<FromEngine, { readonly type: 'result' | 'error' }>

/** The parts of a front that its calls need. */
export interface CallingFront extends Pick<PlacingParts, 'clock' | 'options' | 'sleep'> {
  readonly answer: (answer: Answer) => void
  /** The number of messages that it has refused. */
  readonly refusedMessages: () => number
}

/** The calls of a front's clients, at the workers. */
export class WorkerCalls {
  readonly #open = new Map<number, Call>()
  readonly #waiting: Waiting<Call>
  readonly #statistics = new LastStatistics()
  readonly #context: CallContext

  constructor(
    private readonly members: Members,
    placing: Placing,
    private readonly front: CallingFront,
  ) {
    const { clock, refusedMessages } = front
    const [statistics, cursors] = [this.#statistics, new ActivityCursors()]
    this.#context = { members, placing, statistics, cursors, refusedMessages }
    this.#waiting = new Waiting(clock, {
      onTurn: ({ message, deaths }) => this.make(message, deaths),
      onExpired: ({ message }) => this.#fail(message.call, noWorker()),
      sleep: front.sleep,
    })
  }

  /** Makes the calls that wait for a worker, if there is one now. */
  retry(): void {
    if (this.#isAnyThere) this.#waiting.retry()
  }

  /**
   * @param deaths the number of workers that were lost before they answered; default 0
   * @param refusedContext the slot size of the worker that has refused the call as too long; default 0: none has
   */
  make(message: CallMessage, deaths = 0, refusedContext = 0): void {
    this.#remove(message.call)
    const call = new Call(message, deaths)
    this.#open.set(message.call, call)
    if (!this.#isAnyThere && call.kind.isPatient) {
      return this.#waiting.add(call, Infinity, this.front.options.patienceMs)
    }
    try {
      this.#send(call, call.kind.plan(message, this.#context, refusedContext))
    } catch (error) {
      this.#fail(message.call, error)
    }
  }

  leave(call: number): void {
    for (const id of this.#remove(call)?.waitsFor ?? []) {
      this.members.get(id)?.link.send({ type: 'leave', call })
    }
  }

  /** Takes a worker's answer. */
  onAnswer({ record: { id, info }, link }: Member, answer: Answer): void {
    const open = this.#open.get(answer.call)
    if (open === undefined || !open.waitsFor.delete(id)) return
    const { contextSize } = info.limits
    const isLargerUp = () => this.members.larger(contextSize).some(isUp)
    if (answer.type === 'result') {
      const { tellsIds = false, onAnswer } = open.kind
      const value = tellsIds ? withOwnIds(answer.value, link.id) : answer.value
      open.answers.set(id, value)
      onAnswer?.(id, value, this.#context)
    } else if (open.kind.isPatient && answer.error.code === 'prompt_too_long' && isLargerUp()) {
      return this.make(open.message, open.deaths, contextSize)
    } else if (open.kind.partialMs === undefined || open.answers.size + open.waitsFor.size === 0) {
      this.#remove(answer.call)
      return this.front.answer(answer)
    }
    this.#finish(open)
  }

  /** Handles the loss of a worker: its calls go to another one, or do without its answer, or fail. */
  onLost(worker: string): void {
    this.#statistics.lose(worker)
    // A copy, as some calls are made again meanwhile.
    const all = [...this.#open.values()]
    for (const open of all) {
      if (!open.waitsFor.delete(worker)) continue
      const { message, kind, deaths } = open
      if (open.answers.size + open.waitsFor.size > 0) this.#finish(open)
      else if (kind.isPatient && deaths < 3) this.make(message, deaths + 1)
      else this.#fail(message.call, new CllmError('engine_unavailable', 'The worker is gone'))
    }
  }

  /** Ends all calls. */
  failAll(error: CllmError): void {
    for (const call of this.#open.keys()) this.#fail(call, error)
  }

  get #isAnyThere(): boolean {
    if (this.front.sleep.isCatchingUp) return false
    return this.members.all.some(({ report }) => report !== undefined)
  }

  #send(call: Call, { to, messageTo, merge }: CallPlan): void {
    const { message, kind } = call
    const { clock } = this.front
    call.waitsFor = new Set(to.map(({ record }) => record.id))
    call.merge = merge
    if (to.length > 1) call.dueAt = clock.now() + (kind.partialMs ?? Infinity)
    const isSent = to.map((member) => member.link.send(messageTo?.(member) ?? message))
    if (isSent.includes(false)) return this.#fail(message.call, requestTooLarge())
    if (call.dueAt === Infinity) return
    clock.at(call.dueAt, () => {
      if (this.#open.get(message.call) === call) this.#finish(call)
    })
  }

  #finish(open: Call): void {
    const isEnough = open.answers.size > 0 && this.front.clock.now() >= open.dueAt
    if (open.waitsFor.size > 0 && !isEnough) return
    const { call } = open.message
    let value: unknown
    try {
      value = open.merge(open.answers)
    } catch (error) {
      // a worker's answer may have an unexpected form
      return this.#fail(call, error)
    }
    this.#remove(call)
    this.front.answer({ type: 'result', call, value })
  }

  #remove(call: number): Call | undefined {
    const open = this.#open.get(call)
    this.#open.delete(call)
    if (open !== undefined) this.#waiting.delete(open)
    return open
  }

  #fail(call: number, error: unknown): void {
    this.#remove(call)
    this.front.answer({ type: 'error', call, error: CllmError.from(error).serialize() })
  }
}
