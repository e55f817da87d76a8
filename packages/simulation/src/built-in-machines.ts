import { passesOf, type Share } from '@cllm/core'
import { type Machine, type MachineModel, type PassCosts, passMachine } from './machine.js'

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
  /** Attention of a decoding sequence, for each token of its context. */
  perRead: 0.025,
  /** Attention of a prompt's token, for each token of context before it, computed in tiles of 64 tokens. */
  perPair: 0.0025,
  /** The same in a chunk that is shorter than a tile. */
  perLonePair: 0.0146,
}

/** Costs of a pass over the weights that takes decodes and prompts together, in milliseconds. */
export type UniformCosts = Readonly<typeof twoCores>

/** Prompt tokens that attention computes at once. */
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
 * A machine that splits a batch as llama.cpp does when each sequence has its own KV cache: a pass takes
 * the same number of tokens of each of its sequences, whose slots follow each other.
 */
export function equalPasses(costs: UniformCosts, passTokens = 512): Machine {
  return (shares) => passesOf(shares, passTokens).reduce((ms, pass) => ms + passMs(costs, pass), 0)
}

/** What bounds a pass of a large model on a GPU, in milliseconds. */
interface Roofline {
  /** Reading all weights once: the shortest time of a pass. */
  readonly weights: number
  /** Computing a token. */
  readonly token: number
  /** Reading the key and the value of one token of a sequence's context. */
  readonly read: number
  /** Attention of a prompt's token to one token of its context. */
  readonly pair: number
}

/** A pass takes as long as reading the weights or computing its tokens, whichever is longer. */
function roofline({ weights, token, read, pair }: Roofline): Machine {
  return (shares) => {
    let tokens = 0
    let attention = 0
    for (const share of shares) {
      tokens += share.tokens
      attention += read * (share.context + share.tokens)
      if (share.tokens > 1) attention += pair * share.tokens * (share.context + share.tokens / 2)
    }
    return Math.max(weights, token * tokens) + attention
  }
}

/** By `cllm bench calibrate` on 2026-11-27, 16 slots of 2,560 tokens: steps are 4.9 % off, mixed ones 3 %. */
const h200: PassCosts = {
  decode: { alone: 5.7, base: 5.77, each: 0.443, read: 5.39e-5 },
  prefill: { base: 7.75, sequence: 0.599, each: 0.112, pair: 4.76e-6, lonePair: 2.42e-5 },
  copy: { base: 2.43, each: 1.84e-4 },
  loop: { base: 0, each: 0 },
}

/**
 * The machines that simulations know without a calibration, the default first.
 *
 * `gpu-8b` is derived from data sheets: 16 GB of weights and 131 kB of keys and values per token
 * (Llama 3 8B in 16 bits) at 70 % of 3.35 TB/s; 16 GFLOP a token at 40 % of 989 TFLOP/s (H100).
 */
export const builtInMachines: ReadonlyMap<string, MachineModel> = new Map(
  [
    {
      name: 'gpu-8b',
      about: 'derived, not measured: an 8B model in 16 bits on a GPU of 3.35 TB/s and 989 TFLOP/s',
      stepMs: roofline({ weights: 6.8, token: 0.04, read: 5.6e-5, pair: 1.3e-6 }),
      copyMs: (tokens: number) => 0.05 + 1.1e-4 * tokens,
      chunkMultiple: 1,
    },
    passMachine(h200, {
      name: 'h200-8b',
      about: 'measured: an 8B model in Q4_K_M on an H200, with a KV cache for each slot',
      chunkMultiple: tile,
    }),
    {
      name: 'two-cores',
      about: 'measured: a 0.6B model in Q4_K_M on two CPU cores',
      stepMs: equalPasses(twoCores),
      copyMs: (tokens: number) => 14 + 0.023 * tokens,
      chunkMultiple: tile,
    },
  ].map((machine) => [machine.name, machine]),
)
