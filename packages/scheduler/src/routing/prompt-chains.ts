/** Leading blocks that two prompts share; equal hashes mean that all before is equal, too. */
function sharedBlocks(one: readonly number[], other: readonly number[]): number {
  const most = Math.min(one.length, other.length)
  if (most === 0 || one[0] !== other[0]) return 0
  // Most pairs share all or only a system prompt: widening steps, then halving ones.
  let low = 1
  let step = 1
  while (low + step <= most && one[low + step - 1] === other[low + step - 1]) {
    low += step
    step *= 2
  }
  let high = Math.min(most, low + step - 1)
  while (low < high) {
    const middle = (low + high + 1) >>> 1
    if (one[middle - 1] === other[middle - 1]) low = middle
    else high = middle - 1
  }
  return low
}

/** The most leading blocks of a prompt that one of these prompts shares. */
export function longestShared(
  chains: readonly (readonly number[])[],
  blocks: readonly number[],
): number {
  let longest = 0
  for (const chain of chains) {
    // A chain that differs at the last place that would help cannot be longer.
    if (chain.length <= longest || chain[longest] !== blocks[longest]) continue
    longest = sharedBlocks(chain, blocks)
  }
  return longest
}

/**
 * The prompts that a worker's slots hold, as it appears from outside: each request takes the slot of a
 * prompt that it continues, else of the one that was used longest ago and is not in use.
 */
export class PromptChains {
  #chains: { readonly id: string; readonly blocks: readonly number[]; isOpen: boolean }[] = []

  constructor(private readonly slots: number) {}

  /** The prompts, the last used one last. */
  get list(): (readonly number[])[] {
    return this.#chains.map(({ blocks }) => blocks)
  }

  /** Leading blocks of a prompt that some slot holds. */
  held(blocks: readonly number[]): number {
    return longestShared(this.list, blocks)
  }

  /** A request with this prompt arrived. */
  add(id: string, blocks: readonly number[]): void {
    const continued = this.#chains.findIndex(
      (chain) => !chain.isOpen && sharedBlocks(chain.blocks, blocks) === chain.blocks.length,
    )
    if (continued >= 0) this.#chains.splice(continued, 1)
    this.#chains.push({ id, blocks, isOpen: true })
    if (this.#chains.length <= this.slots) return
    const oldest = this.#chains.findIndex(({ isOpen }) => !isOpen)
    if (oldest >= 0) this.#chains.splice(oldest, 1)
  }

  /** The request ended; its prompt stays. */
  end(id: string): void {
    const chain = this.#chains.find((one) => one.id === id && one.isOpen)
    if (chain !== undefined) chain.isOpen = false
    while (this.#chains.length > this.slots) {
      const oldest = this.#chains.findIndex(({ isOpen }) => !isOpen)
      if (oldest < 0) return
      this.#chains.splice(oldest, 1)
    }
  }
}
