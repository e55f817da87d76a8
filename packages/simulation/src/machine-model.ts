import { equalPasses, type Machine, type Share, tile, twoCores } from './machine.js'

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
  return (shares: readonly Share[]) => {
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
    {
      name: 'two-cores',
      about: 'measured: a 0.6B model in Q4_K_M on two CPU cores',
      stepMs: equalPasses(twoCores),
      copyMs: (tokens: number) => 14 + 0.023 * tokens,
      chunkMultiple: tile,
    },
  ].map((machine) => [machine.name, machine]),
)
