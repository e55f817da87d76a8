import { type BatchItem, LinearFit, passesOf, type Share, slotGaps, type SlotId } from '@cllm/core'
import { z } from 'zod'
import type { SlotCells } from './slot-cells.js'

/** What a slot computes in a pass. */
type PassItem = Pick<BatchItem, 'slot' | 'position' | 'tokens'>

/**
 * What a pass over the weights, each of its tokens, and a token and one that it reads are taken to cost at
 * first, each beside the others (a 0.6B model on two cores); in chunks, the latter in whole tiles of queries
 * and without. Passes of drafts are rare, and show sooner that something has changed.
 */
const fits = {
  decode: { prior: [1, 0.15, 0.0005], memory: 0.98, outlier: 3 },
  drafts: { prior: [20, 3, 0.003], memory: 0.95, outlier: 3 },
  chunk: { prior: [20, 2.2, 0.0025, 0.0146], memory: 0.98, outlier: 3 },
} as const

/** Where a GPU computes, a pass takes as long as a hundred tokens (an 8B model: 60 to 230). */
const chunkOnGpu = { ...fits.chunk, prior: [10, 0.1, 1e-5, 1e-5] } as const

/** Passes whose tokens cost differently: a token of each sequence, drafts to verify, chunks of prompts. */
type PassKind = keyof typeof fits

const kinds = Object.keys(fits) as [PassKind, ...PassKind[]]
const eachKind = <T>(make: (kind: PassKind) => T): Readonly<Record<PassKind, T>> =>
  Object.fromEntries(kinds.map((kind) => [kind, make(kind)])) as Record<PassKind, T>

/** What passes take, in milliseconds: learned from those that were computed. */
export class PassCosts {
  readonly #fits: Readonly<Record<PassKind, LinearFit>>

  /**
   * @param tile - queries in a tile of attention; default: it has none
   * @param onGpu - whether a GPU computes
   */
  constructor(
    readonly tile = Infinity,
    onGpu = false,
  ) {
    const all = onGpu ? { ...fits, chunk: chunkOnGpu } : fits
    this.#fits = eachKind((kind) => new LinearFit(all[kind]))
  }

  /** Learns from a pass of these items, or from the passes that llama.cpp makes of them. */
  observe(kind: PassKind, items: readonly PassItem[], ms: number): void {
    if (items.length === 0) return
    this.#fits[kind].observe(this.#features(kind, items), ms)
  }

  /** Whether such a pass was seen: the costs of others are in no unit. */
  hasLearned(kind: PassKind): boolean {
    return this.#fits[kind].hasLearned
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

  /** What passes of each kind cost, as JSON. */
  learned(): Readonly<Partial<Record<PassKind, unknown>>> {
    return eachKind((kind) => this.#fits[kind].learned())
  }

  /** @throws where it is not what {@link learned} returned */
  recall(learned: unknown): void {
    const given = z.partialRecord(z.enum(kinds), z.unknown()).parse(learned)
    for (const kind of kinds) this.#fits[kind].recall(given[kind])
  }

  #features(kind: PassKind, items: readonly PassItem[]): number[] {
    if (kind === 'chunk') return this.#chunkFeatures(items)
    let [count, reads] = [0, 0]
    for (const { position, tokens } of items) {
      count += tokens.length
      reads += tokens.length * (position + tokens.length / 2)
    }
    const slots = items.map(({ slot }) => slot)
    const passes =
      kind === 'decode' ? slotGaps(slots).length + 1 : passesOf(sharesOf(items), Infinity).length
    return [passes, count, reads]
  }

  #chunkFeatures(items: readonly PassItem[]): number[] {
    const passes = passesOf(sharesOf(items), Infinity)
    let [count, reads, tiled] = [0, 0, 0]
    for (const { tokens, context } of passes.flat()) {
      const keys = context + tokens / 2
      count += tokens
      if (tokens < this.tile) reads += tokens * keys
      else tiled += Math.ceil(tokens / this.tile) * this.tile * keys
    }
    return [passes.length, count, tiled, reads]
  }
}

const sharesOf = (items: readonly PassItem[]): Share[] =>
  items.map(({ slot, position, tokens }) => ({ slot, tokens: tokens.length, context: position }))

/**
 * The share of a pass that a free slot between two runs of ids costs, where it cannot be computed along:
 * the next sequence that takes it brings the runs closer to each other.
 */
const holeShare = 0.1

/**
 * The cost of gaps between slots. llama.cpp puts only sequences whose ids follow each other by one into
 * one pass over the weights, so every further run of ids is another pass: unless the idle slots between
 * them compute a token, too, which is taken off again. Costs that were learned from decodes decide which
 * of the two is cheaper.
 */
export class SlotLayout {
  constructor(
    private readonly cells: Pick<SlotCells, 'length' | 'canSpare'>,
    private readonly costs: PassCosts,
  ) {}

  /** The idle slots, none of which is `used`, that a decode computes along to be fewer passes. */
  fillers(decoding: readonly SlotId[], used: readonly SlotId[]): SlotId[] {
    const isIdle = (slot: SlotId): boolean => !used.includes(slot)
    const idle = slotGaps(decoding).filter((gap) => gap.every(isIdle))
    return idle.filter((gap) => this.#fillMs(gap) < this.costs.decode.pass).flat()
  }

  /** Milliseconds that a step loses with sequences in these slots. */
  lostMs(used: readonly SlotId[]): number {
    if (!this.costs.hasLearned('decode')) return 0
    return slotGaps(used).reduce((sum, gap) => {
      const apart = (1 + holeShare * gap.length) * this.costs.decode.pass
      return sum + Math.min(apart, this.#fillMs(gap))
    }, 0)
  }

  #fillMs(gap: readonly SlotId[]): number {
    const { sequence, read } = this.costs.decode
    return gap.reduce((sum, slot) => {
      if (!this.cells.canSpare(slot)) return Infinity
      return sum + sequence + this.cells.length(slot) * read
    }, 0)
  }
}

/**
 * Chooses a slot such that the ids in use stay consecutive: llama.cpp puts only sequences whose ids
 * follow each other into one pass over the weights. So a slot that joins two runs of ids comes
 * first, then one beside a run, then any; among equals one between the ids in use, and then the
 * first, which is the cheapest to lose.
 */
export function preferSlot(free: readonly SlotId[], used: readonly SlotId[]): SlotId {
  const taken = new Set(used)
  let best = free[0] ?? 0
  let most = -1
  const lowest = Math.min(...used)
  const highest = Math.max(...used)
  for (const slot of free) {
    const neighbours = Number(taken.has(slot - 1)) + Number(taken.has(slot + 1))
    const isBetween = slot > lowest && slot < highest
    const score = 2 * neighbours + Number(isBetween)
    if (score > most) {
      best = slot
      most = score
    }
  }
  return best
}
