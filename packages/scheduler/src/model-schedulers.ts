import type { ModelSchedulerDefinition, ModelView, WaitingForModel } from '@cllm/core'
import { defineModelScheduler, lru } from '@cllm/core'
import { z } from 'zod'
import { notNegative } from './kit/options.js'

/** How much a priority may lengthen or shorten the patience, as powers of two. */
const mostDoublings = 4

/**
 * Milliseconds for which `turns` lets a request wait while the models in memory are in use. Each priority
 * above 0 halves it, each below doubles it, up to 16 times.
 *
 * @param swapMs - what it takes to load its model and, later, the one that makes room
 * @param patience - the option
 */
export function turnsPatienceMs(swapMs: number, priority: number, patience: number): number {
  const doublings = Math.max(-mostDoublings, Math.min(mostDoublings, -priority))
  return patience * swapMs * 2 ** doublings
}

/** A model that is waited for, and since when it is overdue, or from when on. */
interface Wanted {
  readonly model: ModelView
  readonly overdueAt: number
  /** Requests that wait, for each millisecond of its load. */
  readonly gain: number
}

/** Models in turns: each serves all that come while it is there, until others are overdue. */
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
            // Its load, and as much again for the other one to leave.
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

/** What it costs when a model has to come back. */
const returnMs = ({ loadMs = 0, lostMs }: ModelView): number => loadMs + lostMs

/** How long it was unused, for each millisecond that its return costs. */
const worthLeaving = (model: ModelView, now: number): number =>
  (now - model.lastUsed) / Math.max(1, returnMs(model))

/** Overdue ones first, by when they were; then those that serve most requests for their load. */
function compare(a: Wanted, b: Wanted, now: number): number {
  const [isADue, isBDue] = [a.overdueAt <= now, b.overdueAt <= now]
  if (isADue !== isBDue) return isADue ? -1 : 1
  return isADue ? a.overdueAt - b.overdueAt : b.gain - a.gain
}

/** The built-in model schedulers, the baseline first. */
export const modelSchedulers: readonly ModelSchedulerDefinition[] = [lru, turns]
