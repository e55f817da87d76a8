import type { EngineActivity, EngineStatistics, RequestReport } from '@cllm/core'
import { CllmError } from '@cllm/core'
import type { EngineCallName, RecordingParts, ToEngine } from '@cllm/host'
import type { Member, Members } from '../members.js'
import type { Placing } from '../placing/placing.js'
import type { ActivityCursors, LastStatistics } from './merge-answers.js'
import { mergeActivities, mergeRecordings, mergeStatistics } from './merge-answers.js'
import { idThere } from '../../messages.js'

/** A call of a client. */
export type CallMessage = ToEngine & { readonly type: 'call' }

/** The state with which calls are planned and answered. */
export interface CallContext {
  readonly members: Members
  readonly placing: Placing
  readonly statistics: LastStatistics
  readonly cursors: ActivityCursors
  /** The number of messages that the front has refused. */
  readonly refusedMessages: () => number
}

/** The workers that get a call, and how their answers are merged. */
export interface CallPlan {
  readonly to: readonly Member[]
  /** The message to a worker; default: the call unchanged. */
  readonly messageTo?: (member: Member) => CallMessage
  /** The client's answer, from the answers of the workers by id, in the order of their arrival. */
  readonly merge: (answers: ReadonlyMap<string, unknown>) => unknown
}

/** How calls of a name are made. */
export interface CallKind {
  /**
   * Plans a call. Throws if it cannot be made, `engine_unavailable` if there is no worker for it. `refusedContext` is
   * the slot size of the worker that has refused it as too long; 0: none has.
   */
  readonly plan: (message: CallMessage, context: CallContext, refusedContext: number) => CallPlan
  /** Whether all workers have the same answer, so that the call can wait for any, and is retried if one is lost. */
  readonly isPatient?: boolean
  /** Whether its answer contains ids of requests, which are different at the worker. */
  readonly tellsIds?: boolean
  /**
   * Milliseconds after which a single worker's answer is enough, as one whose engine hangs must not make the others
   * unavailable; failures of workers are then left out, too. Default: all must answer.
   */
  readonly partialMs?: number
  /** Called with each worker's answer. */
  readonly onAnswer?: (worker: string, value: unknown, context: CallContext) => void
}

const first: CallPlan['merge'] = (answers) => answers.values().next().value

const toOne: CallKind = {
  plan: (_, { members }, refused) => ({ to: [members.forCall(refused)], merge: first }),
}
const toAnyone: CallKind = { ...toOne, isPatient: true }

/** A call to all workers. Their answers are in the order of the workers; lists are joined. */
const toAll = (merge: (all: readonly unknown[], context: CallContext) => unknown): CallKind => ({
  plan(_, context) {
    const to = context.members.allForCall()
    const all = (answers: ReadonlyMap<string, unknown>): unknown[] =>
      to.flatMap(({ record }) => answers.get(record.id) ?? [])
    return { to, merge: (answers) => merge(all(answers), context) }
  },
})

const table: Partial<Readonly<Record<EngineCallName, CallKind>>> = {
  tokenize: toAnyone,
  detokenize: toAnyone,
  pieces: toAnyone,
  applyTemplate: toAnyone,
  embed: toAnyone,
  getScheduler: toAnyone,
  setScheduler: toAll(([first]) => first),
  cache: toAll((all) => all),
  programs: toAll((all) => all),
  slotAction: { plan: planSlotAction },
  explain: { plan: planExplain, tellsIds: true },
  activity: { plan: planActivity, tellsIds: true, partialMs: 1000 },
  recordingParts: {
    ...toAll((all) => mergeRecordings(all as readonly RecordingParts[])),
    tellsIds: true,
    partialMs: 10_000,
  },
  statistics: {
    ...toAll((_, context) => lastOfAll(context)),
    tellsIds: true,
    partialMs: 1000,
    // Not only in `merge`, as the worker may be lost before the others have answered.
    onAnswer: (worker, value, { statistics }) => statistics.set(worker, value as EngineStatistics),
  },
}

/** How calls of this name are made; those without an entry in the table go to one worker. */
export const kindOf = (name: EngineCallName): CallKind => table[name] ?? toOne

/** Asks the worker that has or had a request, under the id that it has there. */
function planExplain(call: CallMessage, { members, placing }: CallContext): CallPlan {
  const [id] = call.arguments as [string]
  const placed = placing.find(id)
  const member = members.get(placed?.worker)
  if (placed === undefined || member === undefined) {
    const message = `No request with the id "${id}" is known here`
    throw new CllmError('request_not_found', message, { details: { id } })
  }
  const { placement = 0, worker = '', moves } = placed
  const there = { ...call, arguments: [idThere(member.link.id, placement, id)] }
  return {
    to: [member],
    messageTo: () => there,
    merge(answers) {
      return { ...(answers.get(worker) as RequestReport), worker, moves }
    },
  }
}

/** Finds the worker of a slot: slots are numbered across all workers, in their order. */
function planSlotAction(message: CallMessage, { members }: CallContext): CallPlan {
  const [slot, ...more] = message.arguments as [number, ...unknown[]]
  let own = slot
  for (const member of members.allForCall()) {
    const slots = member.report?.slots ?? 0
    if (own < slots) {
      const there = { ...message, arguments: [own, ...more] }
      const { id } = member.record
      return {
        to: [member],
        messageTo: () => there,
        merge: (answers) => ({ ...(answers.get(id) as object), slot }),
      }
    }
    own -= slots
  }
  throw new CllmError('invalid_request', `There is no slot ${slot}`)
}

/** The activity of all workers together. Requests of other fronts have the ids of their worker. */
function planActivity(message: CallMessage, { members, cursors }: CallContext): CallPlan {
  const to = members.allForCall()
  const [cursor] = message.arguments as [number | undefined]
  const since = cursors.get(cursor)
  return {
    to,
    messageTo: ({ record }) => ({ ...message, arguments: [since?.get(record.id)] }),
    merge(answers) {
      const reached = new Map<string, number>()
      const all = to.flatMap(({ record }) => {
        const activity = answers.get(record.id) as EngineActivity | undefined
        if (activity === undefined) {
          const seen = since?.get(record.id)
          if (seen !== undefined) reached.set(record.id, seen)
          return []
        }
        reached.set(record.id, activity.cursor)
        return [activity]
      })
      return mergeActivities(all, cursors.add(reached))
    },
  }
}

/** The last statistics of all workers, also of those that did not answer now, so that no counter decreases. */
function lastOfAll(context: CallContext): EngineStatistics {
  const { members, placing, statistics, refusedMessages } = context
  const waits: number[] = []
  const all = members.all.flatMap(({ record, state }) => {
    const last = statistics.get(record.id)
    if (state === 'up' && last?.waitMs !== undefined) waits.push(last.waitMs)
    return last === undefined ? [] : [last]
  })
  const list = members.statistics
  const workers = { list, ...placing.counts, refusedMessages: refusedMessages() }
  return { ...mergeStatistics([...all, ...statistics.gone], waits), workers }
}
