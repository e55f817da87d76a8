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

/** What calls are planned and answered with. */
export interface CallContext {
  readonly members: Members
  readonly placing: Placing
  readonly statistics: LastStatistics
  readonly cursors: ActivityCursors
  /** Messages that the front has refused so far. */
  readonly refusedMessages: () => number
}

/** Who gets a call, and what becomes of the answers. */
export interface CallPlan {
  readonly to: readonly Member[]
  /** What a worker gets; default: the call as it is. */
  readonly messageTo?: (member: Member) => CallMessage
  /** The client's answer, from those of the workers by their names, in the order in which they came. */
  readonly merge: (answers: ReadonlyMap<string, unknown>) => unknown
}

/** What becomes of the calls of a name. */
export interface CallKind {
  /**
   * Throws where it cannot be made, `engine_unavailable` where there is no worker for it. One of this size has refused it
   * as too long; 0: none has.
   */
  readonly plan: (message: CallMessage, context: CallContext, refusedContext: number) => CallPlan
  /** Any worker's answer is the same: it can wait for one, and is made again where one is lost. */
  readonly isPatient?: boolean
  /** Its answer names requests, by the ids that they have at the worker. */
  readonly tellsIds?: boolean
  /**
   * The answer does without a worker that cannot give any: one whose engine stands still must not take the others out of
   * the service. Milliseconds from the call on, after which one answer is enough; default: it needs all of them.
   */
  readonly partialMs?: number
  /** A worker answered. */
  readonly onAnswer?: (worker: string, value: unknown, context: CallContext) => void
}

const first: CallPlan['merge'] = (answers) => answers.values().next().value

const toOne: CallKind = {
  plan: (_, { members }, refused) => ({ to: [members.forCall(refused)], merge: first }),
}
const toAnyone: CallKind = { ...toOne, isPatient: true }

/** To all workers; the answers are in their order, and lists follow each other. */
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
    // At once: the worker may be lost before the others have answered.
    onAnswer: (worker, value, { statistics }) => statistics.set(worker, value as EngineStatistics),
  },
}

/** What becomes of the calls of this name: they go to one worker where the table does not say more. */
export const kindOf = (name: EngineCallName): CallKind => table[name] ?? toOne

/** The worker that has or had a request knows what happened to it, under the id that it has there. */
function planExplain(call: CallMessage, { members, placing }: CallContext): CallPlan {
  const [id] = call.arguments as [string]
  const placed = placing.find(id)
  const member = members.get(placed?.worker)
  if (placed === undefined || member === undefined) {
    const message = `No request with the id "${id}" is known here`
    throw new CllmError('request_not_found', message, { details: { id } })
  }
  const { placement = 0 } = placed
  const there = { ...call, arguments: [idThere(member.link.id, placement, id)] }
  const { worker = '', moves } = placed
  return {
    to: [member],
    messageTo: () => there,
    merge(answers) {
      const report = answers.get(worker) as RequestReport
      return { ...report, worker, moves }
    },
  }
}

/** Slots are counted through, in the order of the workers. */
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

/** All workers together. Requests of other fronts keep the ids that their worker gave them. */
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

/** Of all workers. Those of a worker that cannot answer now are as they were, so that no counter goes back. */
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
