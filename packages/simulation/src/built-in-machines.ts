import { equalPasses, type Machine, type MachineModel, tile, twoCores } from './machine.js'
import { type PassCosts, passMachine } from './pass-machine.js'

/** What bounds a pass of a large model on a GPU, in milliseconds. */
interface Roofline {
  /** Reading all weights once: no pass is faster. */
  readonly weights: number
  /** Computing a token. */
  readonly token: number
  /** Reading a key and its value, for each token of context of a sequence. */
  readonly read: number
  /** Attention of a prompt's token to one key. */
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
