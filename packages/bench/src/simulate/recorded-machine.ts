import { LinearFit, type Recording, type StepRecord } from '@cllm/core'
import { stepFeatures } from '@cllm/scheduler'
import type { MachineModel } from '@cllm/scheduler/simulation'
import { mean, quantile } from 'simple-statistics'
import { datasetError } from '../datasets/dataset-error.js'

/** With fewer steps nothing can be said of what one takes. */
const fewest = 20
/** More steps than this teach nothing new: every second, third … one is taken. */
const most = 4000
/** Observations in all, so that what is assumed at first counts for nothing beside them. */
const observations = 100_000

/**
 * A machine whose steps take what those of a recording took: the seven costs of the learned cost model
 * (see `CostModel`), fitted to them, and the time that usually passed between two steps that followed
 * each other. A cost that no step of the recording tells of, such as that of prompts where none came,
 * stays that of a small model on two cores in proportion.
 *
 * @throws `invalid_dataset` when there are too few steps
 */
export function recordedMachine({ steps, model, limits }: Recording, file: string): MachineModel {
  if (steps.length < fewest) {
    const problem = `has ${steps.length} steps, too few to tell what one costs: name a machine with --cost`
    throw datasetError(file, undefined, problem)
  }
  const stride = Math.ceil(steps.length / most)
  const sample = steps.filter((_, index) => index % stride === 0)
  const known = sample.map((step) => ({ features: featuresOf(step), ms: step.ms }))
  const fit = new LinearFit({
    prior: [15, 8, 0.005, 20, 2, 3, 0.002],
    memory: 1,
    outlier: Infinity,
  })
  for (let pass = 0; pass * known.length < observations; pass++) {
    for (const { features, ms } of known) fit.observe(features, ms)
  }
  const errors = known.map(({ features, ms }) => Math.abs(fit.predict(features) / ms - 1))
  const error = (100 * mean(errors.filter(Number.isFinite))).toFixed(1)
  const between = betweenSteps(steps)
  return {
    name: 'recorded',
    about: `fitted to ${known.length} steps of ${model}, mean error ${error} %`,
    chunkMultiple: limits.chunkMultiple ?? 1,
    stepMs: (shares) => {
      const decoding = shares.filter(({ tokens }) => tokens === 1)
      const features = stepFeatures(
        decoding.map(({ context }) => context),
        shares.filter(({ tokens }) => tokens > 1),
      )
      return between + fit.predict(features)
    },
    copyMs: () => 0,
  }
}

function featuresOf({ decode, context, chunks }: StepRecord): number[] {
  return stepFeatures(
    Array.from({ length: decode }, () => context / decode),
    chunks.map(([tokens, before]) => ({ tokens, context: before })),
  )
}

/** The lower quartile: a pause without work is no cost. */
function betweenSteps(steps: readonly StepRecord[]): number {
  const gaps = steps.slice(1).map(({ atMs }, index) => {
    const before = steps[index] as StepRecord
    return Math.max(0, atMs - before.atMs - before.ms)
  })
  return quantile(gaps, 0.25)
}
