import { codesOf, lowestWhere, GrowingHash } from '@cllm/core'

/** The work of a prompt on a worker. */
export interface PromptWork {
  promptTokens: number
  /** The tokens that probably have to be computed. */
  readonly ahead: number
  /** The sum over these tokens of the number of tokens before each, to which it attends. */
  readonly pairs: number
  /** Images and sounds to encode. */
  files: number
}

/** The work of a prompt on a worker that has cached its first `cached` tokens. */
export function workOf(
  {
    promptTokens,
    files = [],
  }: { readonly promptTokens: number; readonly files?: readonly number[] },
  cached: number,
  ahead = promptTokens - cached,
): PromptWork {
  const pairs = ahead * (cached + ahead / 2)
  return { promptTokens, ahead, pairs, files: files.filter((end) => end > cached).length }
}

/** The sum of a figure over several prompts. */
export function sumOf(prompts: Iterable<PromptWork>, what: keyof PromptWork): number {
  let sum = 0
  for (const prompt of prompts) sum += prompt[what]
  return sum
}

/** The number of leading blocks that two prompts share; equal hashes mean that all earlier blocks are equal, too. */
function sharedBlocks(one: readonly number[], other: readonly number[]): number {
  const most = Math.min(one.length, other.length)
  if (most === 0 || one[0] !== other[0]) return 0
  return lowestWhere(1, most, (block) => one[block] !== other[block])
}

/** The most leading blocks of a prompt that one of these prompts shares. */
export function longestShared(
  chains: readonly (readonly number[])[],
  blocks: readonly number[],
): number {
  let longest = 0
  for (const chain of chains) {
    // A chain that differs right behind the longest match so far cannot have a longer one.
    if (chain.length <= longest || chain[longest] !== blocks[longest]) continue
    longest = sharedBlocks(chain, blocks)
  }
  return longest
}

/**
 * A model of the prompts in a worker's slots, as seen from outside: each request takes the slot of a prompt that it
 * continues, or else the least recently used idle slot.
 */
export class PromptChains {
  #chains: { readonly id: string; readonly blocks: readonly number[]; isOpen: boolean }[] = []

  constructor(private readonly slots: number) {}

  /** The prompts, the most recently used last. */
  get list(): (readonly number[])[] {
    return this.#chains.map(({ blocks }) => blocks)
  }

  /** The most leading blocks of a prompt that some slot holds. */
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
    this.#overwrite()
  }

  /** The request ended; its prompt stays. */
  end(id: string): void {
    const chain = this.#chains.find((one) => one.id === id && one.isOpen)
    if (chain !== undefined) chain.isOpen = false
    this.#overwrite()
  }

  #overwrite(): void {
    while (this.#chains.length > this.slots) {
      const oldest = this.#chains.findIndex(({ isOpen }) => !isOpen)
      if (oldest < 0) return
      this.#chains.splice(oldest, 1)
    }
  }
}

/** The number of leading blocks of a prompt that are indexed: more than most prompts share. */
export const indexed = 16

/** The holders of a block, with their number of prompts that have it; a single holder with one prompt needs no map. */
type Holders<Holder> = Holder | Map<Holder, number>

/** Finds out how many leading blocks of a prompt each holder has, without reading every prompt of every holder. */
export class HeldBlocks<Holder extends object> {
  readonly #holders = new Map<number, Holders<Holder>>()

  /** @param chain - the hashes of a prompt's blocks, each together with all blocks before it */
  add(holder: Holder, chain: readonly number[]): void {
    for (const hash of chain.slice(0, indexed)) {
      const held = this.#holders.get(hash)
      if (held === undefined) this.#holders.set(hash, holder)
      else if (held instanceof Map) held.set(holder, (held.get(holder) ?? 0) + 1)
      else if (held === holder) this.#holders.set(hash, new Map([[holder, 2]]))
      else this.#holders.set(hash, new Map<Holder, number>().set(held, 1).set(holder, 1))
    }
  }

  remove(holder: Holder, chain: readonly number[]): void {
    for (const hash of chain.slice(0, indexed)) {
      const held = this.#holders.get(hash)
      if (!(held instanceof Map)) {
        if (held === holder) this.#holders.delete(hash)
        continue
      }
      const count = held.get(holder) ?? 0
      if (count > 1) held.set(holder, count - 1)
      else held.delete(holder)
      if (held.size === 0) this.#holders.delete(hash)
    }
  }

  /**
   * Calls back for each holder of the first block, and again for each further block, with the number of leading blocks
   * that it has. Holders of {@link indexed} blocks may have more.
   */
  tell(blocks: readonly number[], onHeld: (holder: Holder, depth: number) => void): void {
    for (const [index, hash] of blocks.slice(0, indexed).entries()) {
      const held = this.#holders.get(hash)
      if (held === undefined) return
      if (!(held instanceof Map)) onHeld(held, index + 1)
      else for (const holder of held.keys()) onHeld(holder, index + 1)
    }
  }
}

/** The size of a block, in tokens and in characters of a text. */
const tokenBlock = 64
const textBlock = 256

/** The blocks of a prompt, for routers. */
export interface PromptBlocks {
  /** A hash for each whole block, together with all blocks before it. */
  readonly blocks: readonly number[]
  readonly blockTokens: number
}

/**
 * The blocks of a prompt in tokens.
 *
 * @param scope prompts of different scopes share nothing, such as those of different tenants
 */
export function blocksOfTokens(tokens: readonly number[], scope = ''): PromptBlocks {
  return { blocks: hashesOf(tokens, tokenBlock, scope), blockTokens: tokenBlock }
}

/**
 * The blocks of a prompt in text, for a front without a tokenizer.
 *
 * @param tokensPerCharacter as measured on earlier prompts
 * @param scope as in {@link blocksOfTokens}
 */
export function blocksOfText(text: string, tokensPerCharacter: number, scope = ''): PromptBlocks {
  const blocks = hashesOf(codesOf(text), textBlock, scope)
  return { blocks, blockTokens: textBlock * tokensPerCharacter }
}

function hashesOf(values: ArrayLike<number>, block: number, scope: string): number[] {
  const hash = new GrowingHash()
  hash.add(codesOf(scope))
  const hashes: number[] = []
  for (let end = block; end <= values.length; end += block) {
    hashes.push(hash.add(values, end - block, end))
  }
  return hashes
}
