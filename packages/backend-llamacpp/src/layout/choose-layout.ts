import type { Load, ShapeCount } from './load-record.js'
import { shapeKey, type StepShape } from './step-shape.js'

/** Cells for each slot, or one pool of cells for all slots. */
export type KvLayout = 'own' | 'pool'

/** What a step of a shape takes with each layout, in milliseconds. */
export interface ShapeCost {
  readonly shape: StepShape
  readonly own: number
  readonly pool: number
  /** When it was measured, in milliseconds since the epoch. */
  readonly at: number
}

/** The layout for a load, and why. */
export interface LayoutChoice {
  readonly layout: KvLayout
  /** What the load's steps take with it over what they take with the other; not measured: undefined. */
  readonly ratio?: number
  /** What is known of the costs, these and those of before. */
  readonly costs: readonly ShapeCost[]
}

/** Fewer steps say little about a load. */
const fewestSteps = 200
/** Shapes that are measured, at most: those that most tokens were computed in. */
const mostShapes = 6
/** Older costs are measured anew: the machine may be another, or was busy with something else. */
const trustedMs = 24 * 3600 * 1000
/** A layout is left for the other when this takes less of its time. */
const worthChanging = 0.95

/**
 * Chooses the layout that computes a load sooner. With one pool, prompts and decodes are one pass over the
 * weights, and each sequence's attention runs over the cells of all: which of the two weighs more depends on
 * the machine, on the model and on how long the sequences are.
 *
 * @param current - the layout until now, which stays unless the other is clearly better
 * @param known - costs that were measured before
 * @param now - milliseconds since the epoch
 * @param measure - milliseconds of a step of each shape with a layout
 */
export async function chooseLayout(
  { counts, shifts }: Load,
  current: KvLayout,
  known: readonly ShapeCost[],
  now: number,
  measure: (layout: KvLayout, shapes: readonly StepShape[]) => Promise<readonly number[]>,
): Promise<LayoutChoice> {
  if (shifts) return { layout: 'own', costs: known }
  const steps = counts.reduce((sum, { steps }) => sum + steps, 0)
  if (steps < fewestSteps) return { layout: current, costs: known }
  const chosen = counts.toSorted((a, b) => tokensOf(b) - tokensOf(a)).slice(0, mostShapes)
  const trusted = known.filter(({ at }) => at > now - trustedMs)
  const costs = new Map(trusted.map((cost) => [shapeKey(cost.shape), cost]))
  const missing = chosen.map(({ shape }) => shape).filter((shape) => !costs.has(shapeKey(shape)))
  if (missing.length > 0) {
    const own = await measure('own', missing)
    const pool = await measure('pool', missing)
    for (const [index, shape] of missing.entries()) {
      costs.set(shapeKey(shape), { shape, own: own[index]!, pool: pool[index]!, at: now })
    }
  }
  const takes = { own: 0, pool: 0 }
  for (const { shape, steps } of chosen) {
    const cost = costs.get(shapeKey(shape))!
    takes.own += steps * cost.own
    takes.pool += steps * cost.pool
  }
  const other = current === 'own' ? 'pool' : 'own'
  const layout = takes[other] < worthChanging * takes[current] ? other : current
  const ratio = takes[layout] / takes[layout === 'own' ? 'pool' : 'own']
  return { layout, ratio, costs: [...costs.values()] }
}

function tokensOf({ shape: { sequences, chunk }, steps }: ShapeCount): number {
  return steps * (sequences + chunk)
}
