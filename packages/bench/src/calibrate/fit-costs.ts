import { LinearFit } from '@cllm/core'
import { passFeatures, passMachine, type PassCosts } from '@cllm/simulation'
import { linearRegression, mean } from 'simple-statistics'
import type { CostFile } from '../simulate/read-costs.js'
import type { MeasuredStep } from './measure-steps.js'

/** A step with its measured duration and the prediction of the fitted costs. */
export interface CheckedStep extends MeasuredStep {
  readonly predictedMs: number
}

/** Copies of some lengths, in milliseconds. */
export type MeasuredCopies = readonly (readonly [tokens: number, milliseconds: number])[]

/** Fitted costs but for the engine's loop, and how well they fit. */
export interface FittedCosts {
  readonly costs: Omit<PassCosts, 'loop'>
  readonly steps: readonly CheckedStep[]
  readonly error: CostFile['error']
}

/** A small model on two cores, in the order of `passFeatures`: scaled by the first step. */
const prior = [15, 15, 6, 0.01, 8, 11, 3, 0.0015, 0.0055]
/** Enough passes that the prior has no weight beside the steps. */
const passes = 3000

/**
 * Fits the costs to decode and prefill steps; mixed ones only check them.
 *
 * @param tile - the backend's `chunkMultiple`
 */
export function fitCosts(
  measured: readonly MeasuredStep[],
  copies: MeasuredCopies,
  tile: number,
): FittedCosts {
  const fit = new LinearFit({ prior, memory: 1, outlier: Infinity })
  const fitted = measured
    .filter(({ kind }) => kind !== 'mixed')
    .map(({ shares, durationMs }) => ({ features: passFeatures(shares, tile), durationMs }))
  for (let pass = 0; pass < passes; pass++) {
    for (const { features, durationMs } of fitted) fit.observe(features, durationMs)
  }
  const [alone = 0, base = 0, each = 0, read = 0, ...prefill] = fit.coefficients
  const [first = 0, sequence = 0, token = 0, pair = 0, lonePair = 0] = prefill
  const costs = {
    decode: { alone, base, each, read },
    prefill: { base: first, sequence, each: token, pair, lonePair },
    copy: fitCopies(copies),
  }
  const machine = passMachine(
    { ...costs, loop: { base: 0, each: 0 } },
    { name: '', about: '', chunkMultiple: tile },
  )
  const steps = measured.map((step) => ({ ...step, predictedMs: machine.stepMs(step.shares) }))
  const isHeldOut = ({ kind }: CheckedStep) => kind === 'mixed'
  return {
    costs,
    steps,
    error: {
      fitted: errorOf(steps.filter((step) => !isHeldOut(step))),
      heldOut: errorOf(steps.filter(isHeldOut)),
    },
  }
}

function fitCopies(copies: MeasuredCopies): PassCosts['copy'] {
  if (copies.length === 0) return { base: 0, each: 0 }
  const { m, b } = linearRegression(copies.map(([tokens, ms]) => [tokens, ms]))
  const each = Math.max(0, m)
  return { base: Math.max(0, each === 0 ? mean(copies.map(([, ms]) => ms)) : b), each }
}

function errorOf(steps: readonly CheckedStep[]): CostFile['error']['fitted'] {
  const errors = steps.map(({ durationMs, predictedMs }) => Math.abs(predictedMs / durationMs - 1))
  return {
    mean: errors.length === 0 ? 0 : mean(errors),
    max: errors.reduce((most, error) => Math.max(most, error), 0),
    steps: errors.length,
  }
}
