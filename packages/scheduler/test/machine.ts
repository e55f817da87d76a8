/** What one sequence computes in a step: its slot, its tokens, and what the slot held before. */
export interface Share {
  readonly slot: number
  readonly tokens: number
  readonly context: number
}

/** Milliseconds of a step. */
export type Machine = (shares: readonly Share[]) => number

/** Costs of a pass over the weights, in milliseconds. */
export interface PassCosts {
  /** A pass with a single token. */
  readonly single: number
  readonly base: number
  readonly perToken: number
  readonly perSequence: number
  /** For each key that a prompt's token reads. */
  readonly perPair: number
  /** For each key that a decoding sequence reads. */
  readonly perRead: number
}

/** Measured: a 0.6B model in Q4_K_M on two cores. Decode: 16 ms at 1, 60 at 4, 139 at 16. */
export const twoCores: PassCosts = {
  single: 16,
  base: 33,
  perToken: 2.75,
  perSequence: 3.9,
  perPair: 0.0024,
  perRead: 0.0097,
}

/** A guess at the same model on a large GPU. */
export const gpu: PassCosts = {
  single: 4,
  base: 5,
  perToken: 0.03,
  perSequence: 0.1,
  perPair: 0.00001,
  perRead: 0.0001,
}

function passMs(costs: PassCosts, shares: readonly Share[]): number {
  let ms = costs.base
  for (const { tokens, context } of shares) {
    ms += costs.perSequence + costs.perToken * tokens
    ms += tokens === 1 ? costs.perRead * context : costs.perPair * tokens * (context + tokens / 2)
  }
  const [first, ...others] = shares
  if (others.length > 0 || first?.tokens !== 1) return ms
  return costs.single + costs.perRead * first.context
}

/**
 * A machine that splits a batch as llama.cpp does with a memory of its own for each sequence: a pass
 * takes the same number of tokens of each of the sequences whose slots follow each other.
 */
export function equalPasses(costs: PassCosts, passTokens = 512): Machine {
  return (shares) => {
    let left = [...shares].sort((one, other) => one.slot - other.slot)
    let ms = 0
    while (left.length > 0) {
      let length = 1
      while (left[length]?.slot === (left[0]?.slot ?? 0) + length) length++
      const shortest = Math.min(...left.slice(0, length).map((share) => share.tokens))
      const tokens = Math.min(shortest, Math.max(1, Math.floor(passTokens / length)))
      const pass = left.slice(0, length).map((share) => ({ ...share, tokens }))
      ms += passMs(costs, pass)
      left = left.flatMap((share, index) => {
        if (index >= length) return [share]
        if (share.tokens === tokens) return []
        return [{ ...share, tokens: share.tokens - tokens, context: share.context + tokens }]
      })
    }
    return ms
  }
}
