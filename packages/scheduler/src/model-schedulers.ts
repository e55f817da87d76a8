import type { ModelSchedulerDefinition, ModelView, WaitingForModel } from '@cllm/core'
import { defineModelScheduler, lru } from '@cllm/core'
import { z } from 'zod'
import { notNegative } from './kit/options.js'

/** How much a priority can lengthen or shorten the patience, as a power of two. */
const mostDoublings = 4

/**
 * How long `turns` lets a request wait, in milliseconds, while the models in memory are in use. Each priority above 0
 * halves it, each below 0 doubles it, up to 16 times.
 *
 * @param swapMs - the time to load its model and, later, the model that makes room for it
 * @param patience - the option
 */
export function turnsPatienceMs(swapMs: number, priority: number, patience: number): number {
  const doublings = Math.max(-mostDoublings, Math.min(mostDoublings, -priority))
  return patience * swapMs * 2 ** doublings
}

/** A model with waiting requests, and when it is (or was) overdue. */
interface Wanted {
  readonly model: ModelView
  readonly overdueAt: number
  /** Waiting requests per millisecond of its load. */
  readonly gain: number
}

/** Models take turns: a loaded model serves all requests that arrive, until requests for other models are overdue. */
export const turns = defineModelScheduler({
  name: 'turns',
  doc: 'Requests in groups by model: a model in use stays until one that waits for another is overdue; of unused ones that leaves whose return costs least. For several models in turns.',
  options: z.object({
    patience: notNegative
      .default(4)
      .describe(
        'A waiting request is overdue after this many times what the swap costs: the loads of its model and of the one that leaves, and what that one has to compute again.',
      ),
    linger: notNegative
      .default(0.75)
      .describe(
        'How long an unused model is kept from those that are not overdue, likewise, divided by how many wait for the next one.',
      ),
  }),
  create: ({ patience, linger }) => ({
    decide(models, now) {
      const loaded = models.filter(({ state }) => state === 'loaded')
      const leastReturn = Math.min(...loaded.map(returnMs))
      const swapMs = ({ loadMs = 0 }: ModelView) => loadMs + (loaded.length > 0 ? leastReturn : 0)
      const wanted = models
        .filter(({ state, waiting }) => state === 'unloaded' && waiting.length > 0)
        .map((model): Wanted => {
          const dueAt = (one: WaitingForModel) => {
            const patient = turnsPatienceMs(swapMs(model), one.priority, patience)
            // Time for loading it, and as much again for unloading the other model.
            const due = (one.deadline ?? Infinity) - 2 * (model.loadMs ?? 0)
            return Math.max(one.since, Math.min(one.since + patient, due))
          }
          const { waiting, loadMs = 0 } = model
          const gain = waiting.length / Math.max(1, loadMs)
          return { model, overdueAt: Math.min(...waiting.map(dueAt)), gain }
        })
        .toSorted((a, b) => compare(a, b, now))
      const [next] = wanted
      if (next === undefined) return { holdMs: Infinity }
      if (next.model.fits) return { load: next.model.name }
      const isOverdue = next.overdueAt <= now
      const fitting = wanted.find(({ model }) => model.fits)
      if (!isOverdue && fitting !== undefined) return { load: fitting.model.name }
      const idle = loaded.filter(({ users }) => users === 0)
      const [victim] = idle.toSorted((a, b) => worthLeaving(b, now) - worthLeaving(a, now))
      if (victim !== undefined) {
        const freeAt = victim.lastUsed + (linger * swapMs(next.model)) / next.model.waiting.length
        if (isOverdue || freeAt <= now) return { unload: victim.name }
        return { holdMs: Math.min(freeAt, next.overdueAt) - now }
      }
      if (!isOverdue) return { holdMs: next.overdueAt - now }
      const [leaving] = loaded.toSorted(
        (a, b) => Number(b.isDraining) - Number(a.isDraining) || a.users - b.users,
      )
      return leaving === undefined ? { holdMs: Infinity } : { drain: leaving.name }
    },
  }),
})

/** The cost of loading a model again. */
const returnMs = ({ loadMs = 0, lostMs }: ModelView): number => loadMs + lostMs

/** The time that it was unused per millisecond of loading it again: the highest is unloaded first. */
const worthLeaving = (model: ModelView, now: number): number =>
  (now - model.lastUsed) / Math.max(1, returnMs(model))

/** Overdue models first, the longest overdue first; then those with the most waiting requests for their load time. */
function compare(a: Wanted, b: Wanted, now: number): number {
  const [isADue, isBDue] = [a.overdueAt <= now, b.overdueAt <= now]
  if (isADue !== isBDue) return isADue ? -1 : 1
  return isADue ? a.overdueAt - b.overdueAt : b.gain - a.gain
}

/** The built-in model schedulers, the baseline first. */
export const modelSchedulers: readonly ModelSchedulerDefinition[] = [lru, turns]
