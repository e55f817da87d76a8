import { LinearFit } from '@cllm/core'
import { stepFeatures } from '@cllm/scheduler'
import { linearMachine, type LinearCosts } from '@cllm/scheduler/simulation'
import { linearRegression, mean } from 'simple-statistics'
import type { MeasuredStep } from './measure-steps.js'

/** How far predictions are from what was measured, as shares of it. */
export interface FitError {
  readonly mean: number
  readonly max: number
  readonly steps: number
}

/** A step, what it took and what the fitted costs say. */
export interface CheckedStep extends MeasuredStep {
  readonly predictedMs: number
}

/** Copies of some lengths, in milliseconds. */
export type MeasuredCopies = readonly (readonly [tokens: number, milliseconds: number])[]

/** Fitted costs and how well they fit. */
export interface FittedCosts {
  readonly costs: LinearCosts
  readonly steps: readonly CheckedStep[]
  readonly error: { readonly fitted: FitError; readonly heldOut: FitError }
}

/** What a small model on two cores costs, where nothing else is known: see `CostModel`. */
const prior = [15, 8, 0.005, 20, 2, 3, 0.002]
/** So many that the prior counts for nothing beside the steps. */
const passes = 3000

/** Fits the costs to decode and prefill steps; mixed ones only check them. */
export function fitCosts(
  measured: readonly MeasuredStep[],
  copies: MeasuredCopies,
  betweenSteps: number,
): FittedCosts {
  const fit = new LinearFit({ prior, memory: 1, outlier: Infinity })
  const fitted = measured.filter(({ kind }) => kind !== 'mixed')
  for (let pass = 0; pass < passes; pass++) {
    for (const step of fitted) fit.observe(featuresOf(step), step.durationMs)
  }
  const [base = 0, each = 0, read = 0, first = 0, again = 0, token = 0, pair = 0] = fit.coefficients
  const costs: LinearCosts = {
    decode: { base, each, read },
    prefill: { base: first, again, each: token, read: pair },
    copy: fitCopies(copies),
    betweenSteps,
  }
  const machine = linearMachine(
    { ...costs, betweenSteps: 0 },
    { name: '', about: '', chunkMultiple: 1 },
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

function featuresOf({ shares }: MeasuredStep): number[] {
  const decoding = shares.filter(({ tokens }) => tokens === 1)
  return stepFeatures(
    decoding.map(({ context }) => context + 1),
    shares.filter(({ tokens }) => tokens > 1),
  )
}

function fitCopies(copies: MeasuredCopies): LinearCosts['copy'] {
  if (copies.length === 0) return { base: 0, each: 0 }
  const { m, b } = linearRegression(copies.map(([tokens, ms]) => [tokens, ms]))
  const each = Math.max(0, m)
  return { base: Math.max(0, each === 0 ? mean(copies.map(([, ms]) => ms)) : b), each }
}

function errorOf(steps: readonly CheckedStep[]): FitError {
  const errors = steps.map(({ durationMs, predictedMs }) => Math.abs(predictedMs / durationMs - 1))
  return {
    mean: errors.length === 0 ? 0 : mean(errors),
    max: errors.reduce((most, error) => Math.max(most, error), 0),
    steps: errors.length,
  }
}
