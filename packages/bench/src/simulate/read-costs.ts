import { existsSync } from 'node:fs'
import { builtInMachines, type MachineModel, passMachine } from '@cllm/simulation'
import { z } from 'zod'
import { datasetError } from '../datasets/parse-json.js'
import { readJson } from '../datasets/read-text.js'

const milliseconds = z.number().nonnegative()

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
    decode: z.object({
      alone: milliseconds,
      base: milliseconds,
      each: milliseconds,
      read: milliseconds,
    }),
    prefill: z.object({
      base: milliseconds,
      sequence: milliseconds,
      each: milliseconds,
      pair: milliseconds,
      lonePair: milliseconds,
    }),
    copy: z.object({ base: milliseconds, each: milliseconds }),
    loop: z.object({ base: milliseconds, each: milliseconds }),
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
  const expected = `neither ${names} nor JSON`
  const { model, machine, measuredAt, chunkMultiple, costs } = readJson(
    nameOrFile,
    costFile,
    expected,
  )
  const about = `measured: ${model} on ${machine}, ${measuredAt}`
  return passMachine(costs, { name: nameOrFile, about, chunkMultiple })
}
