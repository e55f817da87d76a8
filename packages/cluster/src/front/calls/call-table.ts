import type { EngineCallName, EngineStatistics } from '@cllm/core'
import type { CallKind, CallPlan } from './call-kind.js'
import { planActivity } from './plan-activity.js'
import { planExplain } from './plan-explain.js'
import { planRecordings } from './plan-recordings.js'
import { planSlotAction } from './plan-slot-action.js'
import { planStatistics } from './plan-statistics.js'

const first: CallPlan['merge'] = (answers) => answers.values().next().value

const toOne: CallKind = {
  plan: (_, { members }) => ({ to: [members.forCall()], merge: first }),
}
const toAnyone: CallKind = { ...toOne, isPatient: true }

const table: Partial<Readonly<Record<EngineCallName, CallKind>>> = {
  tokenize: toAnyone,
  detokenize: toAnyone,
  pieces: toAnyone,
  applyTemplate: toAnyone,
  embed: toAnyone,
  getScheduler: toAnyone,
  setScheduler: { plan: (_, { members }) => ({ to: members.allForCall(), merge: first }) },
  cache: {
    plan: (_, { members }) => ({
      to: members.allForCall(),
      merge: (answers) => [...answers.values()].flat(),
    }),
  },
  slotAction: { plan: planSlotAction },
  explain: { plan: planExplain },
  activity: { plan: planActivity, partialMs: 1000 },
  recordingParts: { plan: planRecordings, partialMs: 10_000 },
  statistics: {
    plan: planStatistics,
    partialMs: 1000,
    // At once: the worker may be lost before the others have answered.
    onAnswer: (worker, value, { statistics }) => statistics.set(worker, value as EngineStatistics),
  },
}

/** What becomes of the calls of this name: they go to one worker where the table does not say more. */
export function kindOf(name: EngineCallName): CallKind {
  return table[name] ?? toOne
}
