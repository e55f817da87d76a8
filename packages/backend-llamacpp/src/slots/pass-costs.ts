import { type BatchItem, LinearFit, slotGaps } from '@cllm/core'

/** What a slot computes in a pass. */
export type PassItem = Pick<BatchItem, 'slot' | 'position' | 'tokens'>

/** Passes whose tokens cost differently: a token of each sequence, drafts to verify, a chunk of one prompt. */
export type PassKind = 'decode' | 'drafts' | 'chunk'

/**
 * What a pass over the weights, each of its tokens, and a token and one that it reads are taken to cost at
 * first, each beside the others (a 0.6B model on two cores); in a chunk, the latter in whole tiles of queries
 * and without. Passes of drafts are rare, and show sooner that something has changed.
 */
const fits = {
  decode: { prior: [1, 0.15, 0.0005], memory: 0.98, outlier: 3 },
  drafts: { prior: [20, 3, 0.003], memory: 0.95, outlier: 3 },
  chunk: { prior: [20, 2.2, 0.0025, 0.0146], memory: 0.98, outlier: 3 },
} as const satisfies Record<PassKind, object>

/** What passes take, in milliseconds: learned from those that were computed. */
export class PassCosts {
  /** Queries in a tile of attention; undefined: it has none. */
  readonly tile: number | undefined
  readonly #fits = {
    decode: new LinearFit(fits.decode),
    drafts: new LinearFit(fits.drafts),
    chunk: new LinearFit(fits.chunk),
  }
  readonly #learned = new Set<PassKind>()

  constructor(tile?: number) {
    this.tile = tile
  }

  /** Learns from a pass of these items, or from the passes that llama.cpp makes of them. */
  observe(kind: PassKind, items: readonly PassItem[], ms: number): void {
    if (items.length === 0) return
    this.#fits[kind].observe(this.#features(kind, items), ms)
    this.#learned.add(kind)
  }

  /** Whether such a pass was seen: the costs of others are in no unit. */
  hasLearned(kind: PassKind): boolean {
    return this.#learned.has(kind)
  }

  /** What computing these items takes. */
  of(kind: PassKind, items: readonly PassItem[]): number {
    return this.#fits[kind].predict(this.#features(kind, items))
  }

  /** What a pass adds, a sequence in it, and a token that this one reads. */
  get decode(): { readonly pass: number; readonly sequence: number; readonly read: number } {
    const [pass, sequence, read] = this.#fits.decode.coefficients
    return { pass: pass!, sequence: sequence!, read: read! }
  }

  #features(kind: PassKind, items: readonly PassItem[]): number[] {
    const { tile = Infinity } = this
    let [count, reads, tiled] = [0, 0, 0]
    for (const { position, tokens } of items) {
      const keys = position + tokens.length / 2
      count += tokens.length
      if (tokens.length < tile) reads += tokens.length * keys
      else tiled += Math.ceil(tokens.length / tile) * tile * keys
    }
    if (kind === 'chunk') return [1, count, tiled, reads]
    const slots = items.map(({ slot }) => slot)
    const passes = kind === 'decode' ? slotGaps(slots).length + 1 : passesOf(items)
    return [passes, count, reads + tiled]
  }
}

/** The passes that llama.cpp makes of a batch: each of as many tokens of slots that follow each other. */
function passesOf(batch: readonly PassItem[]): number {
  let left = batch.map(({ slot, tokens }) => ({ slot, tokens: tokens.length }))
  left.sort((a, b) => a.slot - b.slot)
  let passes = 0
  while (left.length > 0) {
    const first = left[0]!.slot
    const run = left.filter(({ slot }, index) => slot === first + index)
    const least = Math.min(...run.map(({ tokens }) => tokens))
    for (const part of run) part.tokens -= least
    left = left.filter(({ tokens }) => tokens > 0)
    passes++
  }
  return passes
}
