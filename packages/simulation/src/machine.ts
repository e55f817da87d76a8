import { chunkWork, gapMs, passesOf, type Share, slotGaps } from '@cllm/core'

export { passesOf, type Share }

/** Computes how many milliseconds a step takes. */
export type Machine = (shares: readonly Share[]) => number

/** A machine with a model, as a simulation sees it: how long steps and copies take. */
export interface MachineModel {
  readonly name: string
  /** The hardware and model it represents, and whether it was measured. */
  readonly about: string
  readonly stepMs: Machine
  /** Milliseconds that copying this many tokens between slots takes. */
  readonly copyMs: (tokens: number) => number
  /** The tile of attention in tokens: prompt chunks of a multiple of it are computed fastest. */
  readonly chunkMultiple: number
  /** Milliseconds that a step loses with sequences in these slots; absent: nothing in any. */
  readonly layoutMs?: (slots: readonly number[]) => number
}

/** The same machine, its steps and copies `times` as long. */
export function slower(machine: MachineModel, times: number): MachineModel {
  const { stepMs, copyMs } = machine
  return {
    ...machine,
    stepMs: (shares) => times * stepMs(shares),
    copyMs: (tokens) => times * copyMs(tokens),
  }
}

/**
 * Costs of a machine as `cllm bench calibrate` fits them, in milliseconds. Decodes and prompt chunks
 * are computed in separate passes, and a pass takes the same number of tokens of each of its sequences,
 * whose slots follow each other; so the costs of a step depend on its passes and not on its tokens alone.
 */
export interface PassCosts {
  readonly decode: {
    /** A pass with a single sequence. */
    readonly alone: number
    /** A pass with several sequences (`base`), and each of its sequences (`each`). */
    readonly base: number
    readonly each: number
    /** Each token of context that a sequence's attention reads. */
    readonly read: number
  }
  readonly prefill: {
    /** A pass (`base`), each of its sequences, and each of its tokens. */
    readonly base: number
    readonly sequence: number
    readonly each: number
    /** Each pair of a prompt's token and a token of context that it reads, in whole tiles of `chunkMultiple`. */
    readonly pair: number
    /** The same in a chunk that is shorter than a tile. */
    readonly lonePair: number
  }
  /** Copying tokens between slots. */
  readonly copy: { readonly base: number; readonly each: number }
  /** The engine's own time for a step (`base`), and for each sequence that draws a token (`each`). */
  readonly loop: { readonly base: number; readonly each: number }
}

/** Makes a machine from fitted costs. */
export function passMachine(
  costs: PassCosts,
  about: Pick<MachineModel, 'name' | 'about' | 'chunkMultiple'>,
): MachineModel {
  const { loop, copy, decode } = costs
  const { chunkMultiple } = about
  const coefficients = coefficientsOf(costs)
  return {
    ...about,
    stepMs(shares) {
      const all = [...shares, ...fillers(shares, decode)]
      const passesMs = (of: readonly Share[]) =>
        passFeatures(of, chunkMultiple).reduce(
          (sum, feature, index) => sum + feature * coefficients[index]!,
          0,
        )
      const lengths = new Set(shares.map(({ tokens }) => tokens).filter((tokens) => tokens > 1))
      const filledUp = lengths.size < 2 ? [] : [...lengths].map((length) => filledTo(all, length))
      const leastMs = Math.min(...[all, ...filledUp].map(passesMs))
      return loop.base + loop.each * shares.length + leastMs
    },
    copyMs: (tokens) => copy.base + copy.each * tokens,
    layoutMs: (slots) =>
      slotGaps(slots).reduce((sum, gap) => {
        return sum + gapMs(gap, decode.base, gap.length * decode.each)
      }, 0),
  }
}

/** Idle slots that the llama.cpp backend computes along, where that is cheaper than a further pass. */
function fillers(shares: readonly Share[], { base, each }: PassCosts['decode']): Share[] {
  const used = new Set(shares.map(({ slot }) => slot))
  const decoding = shares.filter(({ tokens }) => tokens === 1).map(({ slot }) => slot)
  const idle = slotGaps(decoding).filter((gap) => !gap.some((slot) => used.has(slot)))
  const cheap = idle.filter(({ length }) => length * each < base)
  return cheap.flat().map((slot) => ({ slot, tokens: 1, context: 0 }))
}

/** Shorter chunks padded to a longer one's length, as the llama.cpp backend does where that is cheaper. */
function filledTo(shares: readonly Share[], length: number): Share[] {
  return shares.map((share) => {
    const isShorter = share.tokens > 1 && share.tokens < length
    return isShorter ? { ...share, tokens: length } : share
  })
}

/** The costs of passes in the order of {@link passFeatures}. */
function coefficientsOf({ decode, prefill }: PassCosts): number[] {
  const { base, sequence, each, pair, lonePair } = prefill
  return [decode.alone, decode.base, decode.each, decode.read, base, sequence, each, pair, lonePair]
}

/** The features of a step for the fit: how often each cost occurs in its passes. */
export function passFeatures(shares: readonly Share[], tile: number): number[] {
  let [alone, several, each, read] = [0, 0, 0, 0]
  for (const pass of passesOf(shares.filter(({ tokens }) => tokens === 1))) {
    if (pass.length === 1) alone++
    else {
      several++
      each += pass.length
    }
    for (const { context } of pass) read += context
  }
  const passes = passesOf(shares.filter((share) => share.tokens > 1))
  const chunks = passes.flat()
  const { tokens, pairs, lonePairs } = chunkWork(chunks, tile)
  return [alone, several, each, read, passes.length, chunks.length, tokens, pairs, lonePairs]
}
