import { passesOf, type Share } from '@cllm/core'

export { passesOf, type Share }

/** Milliseconds of a step. */
export type Machine = (shares: readonly Share[]) => number

/**
 * Measured with flash attention: a 0.6B model in Q4_K_M on two cores. Decode: 16 ms at 1, 60 at 4, 86
 * at 8, 137 at 16 sequences; 64 tokens: 180 ms at first, 420 behind 1,500; 63 of them: 1,550.
 */
export const twoCores = {
  /** A pass with a single token. */
  single: 16,
  base: 33,
  perToken: 2.2,
  perSequence: 3.2,
  /** For each key that a decoding sequence reads. */
  perRead: 0.025,
  /** For each key that a token of a prompt reads, computed in tiles of 64 tokens. */
  perPair: 0.0025,
  /** The same in a chunk that is shorter than a tile. */
  perLonePair: 0.0146,
}

/** Costs of a pass over the weights that takes decodes and prompts together, in milliseconds. */
export type UniformCosts = Readonly<typeof twoCores>

/** Tokens that attention computes at once. */
export const tile = 64

function passMs(costs: UniformCosts, shares: readonly Share[]): number {
  let ms = costs.base
  for (const { tokens, context } of shares) {
    ms += costs.perSequence + costs.perToken * tokens
    const keys = context + tokens / 2
    if (tokens === 1) ms += costs.perRead * context
    else if (tokens < tile) ms += costs.perLonePair * tokens * keys
    else ms += costs.perPair * Math.ceil(tokens / tile) * tile * keys
  }
  const [first] = shares
  if (shares.length > 1 || first?.tokens !== 1) return ms
  return costs.single + costs.perRead * first.context
}

/**
 * A machine that splits a batch as llama.cpp does with a memory of its own for each sequence: a pass
 * takes the same number of tokens of each of the sequences whose slots follow each other.
 */
export function equalPasses(costs: UniformCosts, passTokens = 512): Machine {
  return (shares) => passesOf(shares, passTokens).reduce((ms, pass) => ms + passMs(costs, pass), 0)
}

/** A machine with a model on it, as a simulation sees them: the times of steps and copies. */
export interface MachineModel {
  readonly name: string
  /** The hardware and model it represents, and whether it was measured. */
  readonly about: string
  readonly stepMs: Machine
  /** Milliseconds that copying this many tokens between slots takes. */
  readonly copyMs: (tokens: number) => number
  /** Prompt chunks of a multiple of this many tokens are computed fastest. */
  readonly chunkMultiple: number
  /** Milliseconds that a step loses with sequences in these slots; absent: nothing in any. */
  readonly layoutMs?: (slots: readonly number[]) => number
}

/** The same machine, this many times as slow. */
export function slower(machine: MachineModel, times: number): MachineModel {
  const { stepMs, copyMs } = machine
  return {
    ...machine,
    stepMs: (shares) => times * stepMs(shares),
    copyMs: (tokens) => times * copyMs(tokens),
  }
}
