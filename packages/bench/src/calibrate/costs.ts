import { existsSync } from 'node:fs'
import {
  builtInMachines,
  type MachineModel,
  type PassCosts,
  passFeatures,
  passMachine,
} from '@cllm/simulation'
import { z } from 'zod'
import { datasetError } from '../datasets/parse-json.js'
import { readJson } from '../datasets/open-dataset.js'
import { type EngineClient, LinearFit, nextNumber } from '@cllm/core'
import { linearRegression, mean, median } from 'simple-statistics'
import type { MeasuredStep } from './measure-steps.js'
import { performance } from 'node:perf_hooks'

const milliseconds = z.number().nonnegative()

/** What grows with a count: without any, and for each. */
const linear = { base: milliseconds, each: milliseconds }

/** Relative errors of predictions against measurements. */
const fitError = z.object({ mean: z.number(), max: z.number(), steps: z.int() })

/** The JSON that `cllm bench calibrate` writes. */
export const costFile = z.object({
  schema: z.literal(2),
  kind: z.literal('cost-model'),
  /** The model that was measured, and where. */
  model: z.string(),
  machine: z.string(),
  measuredAt: z.string(),
  chunkMultiple: z.int().min(1),
  costs: z.object({
    decode: z.object({ ...linear, alone: milliseconds, read: milliseconds }),
    prefill: z.object({
      ...linear,
      sequence: milliseconds,
      pair: milliseconds,
      lonePair: milliseconds,
    }),
    copy: z.object(linear),
    loop: z.object(linear),
  }),
  /** Of the steps that were fitted, and of mixed ones that were not. */
  error: z.object({ fitted: fitError, heldOut: fitError }),
})

/** A calibrated machine. */
export type CostFile = z.infer<typeof costFile>

/**
 * The machine of a built-in's name or of a file of `cllm bench calibrate`.
 *
 * @throws `invalid_dataset` naming the file and its problem
 */
export function readCosts(nameOrFile: string): MachineModel {
  const builtIn = builtInMachines.get(nameOrFile)
  if (builtIn !== undefined) return builtIn
  const names = [...builtInMachines.keys()].join(', ')
  if (!existsSync(nameOrFile)) {
    const expected = `expected ${names}, or a file of cllm bench calibrate`
    throw datasetError(nameOrFile, undefined, `there is no such file: ${expected}`)
  }
  const file = readJson(nameOrFile, costFile, `neither ${names} nor JSON`)
  const about = `measured: ${file.model} on ${file.machine}, ${file.measuredAt}`
  return passMachine(file.costs, { name: nameOrFile, about, chunkMultiple: file.chunkMultiple })
}

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
  const about = { name: '', about: '', chunkMultiple: tile }
  const machine = passMachine({ ...costs, loop: { base: 0, each: 0 } }, about)
  const steps = measured.map((step) => ({ ...step, predictedMs: machine.stepMs(step.shares) }))
  const errorWhere = (isHeldOut: boolean) =>
    errorOf(steps.filter(({ kind }) => (kind === 'mixed') === isHeldOut))
  return { costs, steps, error: { fitted: errorWhere(false), heldOut: errorWhere(true) } }
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

/** The same work for every stage: a number of sequences, each with a prompt and tokens to draw. */
export interface TokenWork {
  readonly sequences: number
  readonly promptTokens: number
  readonly outputTokens: number
}

/** Prompts that share no prefix with prompts of another round. */
export function promptsOf(work: TokenWork, vocabularySize: number, round: number): number[][] {
  let state = Math.imul(round + 1, 0x9e3779b1) >>> 0
  return Array.from({ length: work.sequences }, () =>
    Array.from({ length: work.promptTokens }, () => {
      state = nextNumber(state)
      // Special tokens are mostly at the ends of a vocabulary.
      return Math.floor(vocabularySize / 8) + ((state >>> 8) % Math.ceil(vocabularySize / 2))
    }),
  )
}

/** How every stage samples, as far as it does. */
export const workSampling = { temperature: 0.7, topK: 40, topP: 0.9, seed: 1 } as const

const promptTokens = 8
const outputTokens = 40

/**
 * The time that the engine, its process and its client add to a step: the ITL of one stream, and of
 * one stream per slot, minus the machine's costs.
 */
export async function loopCosts(
  client: EngineClient,
  { stepMs }: MachineModel,
): Promise<PassCosts['loop']> {
  const { model, limits } = await client.info()
  const beyond = async (sequences: number): Promise<number> => {
    const gaps: number[] = []
    const work = { sequences, promptTokens, outputTokens }
    const stream = async (tokens: readonly number[]) => {
      const sampling = { ...workSampling, ignoreEos: true }
      const request = { prompt: { tokens }, maxTokens: outputTokens, sampling, cache: false }
      let last: number | undefined
      for await (const { type } of client.submit(request)) {
        if (type !== 'token') continue
        const now = performance.now()
        if (last !== undefined) gaps.push(now - last)
        last = now
      }
    }
    await Promise.all(promptsOf(work, model.vocabularySize, sequences).map(stream))
    const context = promptTokens + outputTokens / 2
    const shares = Array.from({ length: sequences }, (_, slot) => ({ slot, tokens: 1, context }))
    return Math.max(0, median(gaps) - stepMs(shares))
  }
  const slots = Math.min(limits.slots, limits.batchSize)
  const one = await beyond(1)
  if (slots === 1) return { base: one, each: 0 }
  const each = Math.max(0, ((await beyond(slots)) - one) / (slots - 1))
  return { base: Math.max(0, one - each), each }
}
