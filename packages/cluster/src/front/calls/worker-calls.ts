import {
  CllmError,
  type Clock,
  type EngineCallName,
  type FromEngine,
  type ToEngine,
} from '@cllm/core'
import type { EngineActivity, EngineStatistics, RecordingParts, RequestReport } from '@cllm/core'
import { type Member, type Members, noWorker, requestTooLarge } from '../members.js'
import { ActivityCursors } from './activity-cursors.js'
import { mergeActivities } from './merge-activity.js'
import { mergeRecordings } from './merge-recordings.js'
import { mergeStatistics, ownStatistics } from './merge-statistics.js'
import { ownActivity, ownId } from './own-activity.js'
import { patient, PatientCalls } from './patient-calls.js'
import { StatisticsBook } from './statistics-book.js'
import type { Placing } from '../placing/placing.js'
import type { Sleep } from '../sleep-watch.js'

/** A call of a client, as it goes to one or several workers. */
interface Call {
  readonly message: ToEngine & { readonly type: 'call' }
  readonly answers: Map<string, unknown>
  readonly waitsFor: Set<string>
  readonly merge: (values: readonly unknown[], byWorker: ReadonlyMap<string, unknown>) => unknown
  deaths: number
  /** From when on one answer is enough. */
  readonly dueAt: number
}

type Answer = Extract<FromEngine, { readonly type: 'result' | 'error' }>

/**
 * Calls whose answer does without a worker that cannot give any: one whose engine stands still must not take the others
 * out of the service. Milliseconds from the call on, after which one answer is enough.
 */
const partial: ReadonlyMap<EngineCallName, number> = new Map([
  ['statistics', 1000],
  ['activity', 1000],
  ['recordingParts', 10_000],
])

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
  readonly #cursors = new ActivityCursors()
  readonly #statistics = new StatisticsBook()

  constructor(
    private readonly members: Members,
    private readonly placing: Placing,
    private readonly front: CallingFront,
  ) {
    const { clock, sleep, patienceMs } = front
    const onExpired = ({ call }: Call['message']) => this.#fail(call, noWorker())
    this.#waiting = new PatientCalls(clock, sleep, patienceMs, onExpired)
  }

  /** There may be a worker: calls that wait for any are made. */
  retry(): void {
    if (!this.#isAnyThere) return
    for (const message of this.#waiting.take()) this.make(message)
  }

  make(message: ToEngine & { readonly type: 'call' }): void {
    if (!this.#isAnyThere && patient.has(message.name)) return this.#waiting.add(message)
    try {
      if (message.name === 'explain') this.#explain(message)
      else if (message.name === 'activity') this.#activity(message)
      else if (message.name === 'recordingParts') this.#recordings(message)
      else if (message.name === 'slotAction') this.#slotAction(message)
      else if (message.name === 'statistics') this.#statisticsOfAll(message)
      else if (message.name === 'cache') this.#send(message, this.#known(), (lists) => lists.flat())
      else if (message.name === 'setScheduler')
        this.#send(message, this.#known(), ([first]) => first)
      else this.#send(message, [this.members.forCall()], ([first]) => first)
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
  onAnswer({ record: { id } }: Member, answer: Answer): void {
    const open = this.#open.get(answer.call)
    if (open === undefined || !open.waitsFor.delete(id)) return
    if (answer.type === 'result') {
      open.answers.set(id, answer.value)
      // At once: it may be lost before the others have answered.
      if (open.message.name === 'statistics') {
        this.#statistics.set(id, answer.value as EngineStatistics)
      }
    } else if (!partial.has(open.message.name) || open.answers.size + open.waitsFor.size === 0) {
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
      const { message } = open
      this.#open.delete(message.call)
      if (open.answers.size + open.waitsFor.size > 0) {
        this.#open.set(message.call, open)
        this.#finish(open)
      } else if (patient.has(message.name) && open.deaths < 3) {
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

  /** @throws `engine_unavailable` */
  #known(): Member[] {
    const known = this.members.all.filter(({ report }) => report !== undefined)
    if (known.length === 0) throw noWorker()
    return known
  }

  /** Those of a worker that cannot answer now are as they were, so that no counter goes back. */
  #statisticsOfAll(message: Call['message']): void {
    const known = this.#known()
    const { placed, movedExactly, movedInexactly } = this.placing.counts
    this.#send(message, known, () => {
      const ids = this.placing.idsByPlacement()
      const waits: number[] = []
      const all = known.flatMap(({ record, link, state }) => {
        const last = this.#statistics.get(record.id)
        if (state === 'up' && last?.waitMs !== undefined) waits.push(last.waitMs)
        return last === undefined ? [] : [ownStatistics(last, `${link.id}/`, ids)]
      })
      const list = this.members.statistics
      const counts = { placed, movedExactly, movedInexactly }
      const workers = { list, ...counts, refusedMessages: this.front.refusedMessages() }
      return { ...mergeStatistics([...all, ...this.#statistics.gone], waits), workers }
    })
  }

  /** Slots are counted through, in the order of the workers. */
  #slotAction(message: Call['message']): void {
    const [slot, ...more] = message.arguments as [number, ...unknown[]]
    let own = slot
    for (const member of this.#known()) {
      const slots = member.report?.slots ?? 0
      if (own < slots) {
        const there = { ...message, arguments: [own, ...more] }
        return this.#send(there, [member], ([result]) => ({ ...(result as object), slot }))
      }
      own -= slots
    }
    throw new CllmError('invalid_request', `There is no slot ${slot}`)
  }

  /** The worker that has or had a request knows what happened to it, under the id that it has there. */
  #explain(message: ToEngine & { readonly type: 'call' }): void {
    const [id] = message.arguments as [string]
    const placed = this.placing.find(id)
    const member = this.members.get(placed?.worker)
    const link = member?.link.id
    if (placed === undefined || member === undefined) {
      const message = `No request with the id "${id}" is known here`
      throw new CllmError('request_not_found', message, { details: { id } })
    }
    const there = { ...message, arguments: [`${link}/${placed.placement}`] }
    const { worker = '', moves } = placed
    const toOwn = ([report]: readonly unknown[]) => ({
      ...(report as RequestReport),
      id,
      worker,
      moves,
    })
    this.#send(there, [member], toOwn)
  }

  /** All workers together. Requests of other fronts keep the ids that their worker gave them. */
  #activity(message: ToEngine & { readonly type: 'call' }): void {
    const members = this.#known()
    const [cursor] = message.arguments as [number | undefined]
    const since = this.#cursors.get(cursor)
    this.#send(
      message,
      members,
      (_, answers) => {
        const ids = this.placing.idsByPlacement()
        const cursors = new Map<string, number>()
        const all = members.flatMap(({ record, link }) => {
          const activity = answers.get(record.id) as EngineActivity | undefined
          if (activity === undefined) {
            const seen = since?.get(record.id)
            if (seen !== undefined) cursors.set(record.id, seen)
            return []
          }
          cursors.set(record.id, activity.cursor)
          return [ownActivity(activity, ownId(link.id, ids))]
        })
        return mergeActivities(all, this.#cursors.add(cursors))
      },
      ({ record }) => ({ ...message, arguments: [since?.get(record.id)] }),
    )
  }

  /** All workers together, as {@link #activity}. */
  #recordings(message: Call['message']): void {
    const members = this.#known()
    this.#send(message, members, (_, answers) => {
      const ids = this.placing.idsByPlacement()
      const all = members.flatMap(({ record, link }) => {
        const parts = answers.get(record.id) as RecordingParts | undefined
        if (parts === undefined) return []
        const toOwn = ownId(link.id, ids)
        return [
          { ...parts, arrivals: parts.arrivals.map((one) => ({ ...one, id: toOwn(one.id) })) },
        ]
      })
      return mergeRecordings(all)
    })
  }

  #send(
    message: Call['message'],
    to: readonly Member[],
    merge: Call['merge'],
    messageTo: (member: Member) => Call['message'] = () => message,
  ): void {
    const waitsFor = new Set(to.map(({ record }) => record.id))
    const answers = new Map<string, unknown>()
    const { clock } = this.front
    const limitMs = to.length === 1 ? Infinity : (partial.get(message.name) ?? Infinity)
    const dueAt = clock.now() + limitMs
    this.#open.set(message.call, { message, answers, waitsFor, merge, deaths: 0, dueAt })
    const isSent = to.map((member) => member.link.send(messageTo(member)))
    if (isSent.includes(false)) {
      return this.#fail(message.call, requestTooLarge())
    }
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
    this.front.answer({
      type: 'result',
      call,
      value: open.merge([...open.answers.values()], open.answers),
    })
  }

  #fail(call: number, error: unknown): void {
    this.#open.delete(call)
    this.front.answer({ type: 'error', call, error: CllmError.from(error).serialize() })
  }
}
