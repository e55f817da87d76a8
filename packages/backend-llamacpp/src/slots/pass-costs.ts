import {
  type BatchItem,
  chunkWork,
  gapMs,
  LinearFit,
  passesOf,
  slotGaps,
  type SlotId,
} from '@cllm/core'
import { z } from 'zod'
import type { SlotCells } from './slot-cells.js'

/** What a slot computes in a pass. */
type PassItem = Pick<BatchItem, 'slot' | 'position' | 'tokens'>

/**
 * The costs that are assumed at first, in relation to each other (from a 0.6B model on two cores): of a pass over the
 * weights, of a token, and of a pair of a token and one that it reads; for chunks, the last cost in whole tiles of
 * queries and without tiles. Passes with drafts are rare, so their costs adapt sooner.
 */
const fits = {
  decode: { prior: [1, 0.15, 0.0005], memory: 0.98, outlier: 3 },
  drafts: { prior: [20, 3, 0.003], memory: 0.95, outlier: 3 },
  chunk: { prior: [20, 2.2, 0.0025, 0.0146], memory: 0.98, outlier: 3 },
} as const

/** On a GPU, a pass over the weights costs as much as a hundred tokens (an 8B model: 60 to 230). */
const chunkOnGpu = { ...fits.chunk, prior: [10, 0.1, 1e-5, 1e-5] } as const

/** Kinds of passes with different costs per token: a token of each sequence, drafts to verify, chunks of prompts. */
type PassKind = keyof typeof fits

const kinds = Object.keys(fits) as [PassKind, ...PassKind[]]
const eachKind = <T>(make: (kind: PassKind) => T): Readonly<Record<PassKind, T>> =>
  Object.fromEntries(kinds.map((kind) => [kind, make(kind)])) as Record<PassKind, T>

/** Predicts how long passes take in milliseconds, and learns from the passes that were computed. */
export class PassCosts {
  readonly #fits: Readonly<Record<PassKind, LinearFit>>

  /**
   * @param tile - queries per tile of attention; default: it has no tiles
   * @param onGpu - whether a GPU computes
   */
  constructor(
    readonly tile = Infinity,
    onGpu = false,
  ) {
    const all = onGpu ? { ...fits, chunk: chunkOnGpu } : fits
    this.#fits = eachKind((kind) => new LinearFit(all[kind]))
  }

  /** Learns from the pass, or the passes, in which llama.cpp computed these items. */
  observe(kind: PassKind, items: readonly PassItem[], ms: number): void {
    if (items.length === 0) return
    this.#fits[kind].observe(this.#features(kind, items), ms)
  }

  /** Whether a pass of this kind was observed; before that, its costs have no unit. */
  hasLearned(kind: PassKind): boolean {
    return this.#fits[kind].hasLearned
  }

  /** The predicted cost of computing these items. */
  of(kind: PassKind, items: readonly PassItem[]): number {
    return this.#fits[kind].predict(this.#features(kind, items))
  }

  /** The costs of a decode: of each pass, of each sequence in it, and of each token that a sequence reads. */
  get decode(): { readonly pass: number; readonly sequence: number; readonly read: number } {
    const [pass, sequence, read] = this.#fits.decode.coefficients
    return { pass: pass!, sequence: sequence!, read: read! }
  }

  /** The learned costs of each kind, as JSON. */
  learned(): Readonly<Partial<Record<PassKind, unknown>>> {
    return eachKind((kind) => this.#fits[kind].learned())
  }

  /** @throws if `learned` was not returned by {@link PassCosts.learned} */
  recall(learned: unknown): void {
    const given = z.partialRecord(z.enum(kinds), z.unknown()).parse(learned)
    for (const kind of kinds) this.#fits[kind].recall(given[kind])
  }

  #features(kind: PassKind, items: readonly PassItem[]): number[] {
    const shares = items.map(({ slot, position, tokens }) => {
      return { slot, tokens: tokens.length, context: position }
    })
    if (kind === 'decode') {
      const { tokens, lonePairs } = chunkWork(shares, Infinity)
      return [slotGaps(items.map(({ slot }) => slot)).length + 1, tokens, lonePairs]
    }
    const passes = passesOf(shares, Infinity)
    const isChunk = kind === 'chunk'
    const { tokens, pairs, lonePairs } = chunkWork(passes.flat(), isChunk ? this.tile : Infinity)
    return [passes.length, tokens, ...(isChunk ? [pairs] : []), lonePairs]
  }
}

/**
 * The cost of gaps between slots. llama.cpp only puts sequences with consecutive ids into one pass over the weights, so
 * every further run of ids is another pass, unless the idle slots between the runs compute a token, too, which is
 * removed again. The costs learned from decodes tell which of the two is cheaper.
 */
export class SlotLayout {
  constructor(
    private readonly cells: Pick<SlotCells, 'length' | 'canSpare'>,
    private readonly costs: PassCosts,
  ) {}

  /** The idle slots, not in `used`, that a decode should compute, too, as that saves a pass and costs less. */
  fillers(decoding: readonly SlotId[], used: readonly SlotId[]): SlotId[] {
    const isIdle = (slot: SlotId): boolean => !used.includes(slot)
    const idle = slotGaps(decoding).filter((gap) => gap.every(isIdle))
    return idle.filter((gap) => this.#fillMs(gap) < this.costs.decode.pass).flat()
  }

  /** Milliseconds that a step takes longer because of gaps between these slots. */
  lostMs(used: readonly SlotId[]): number {
    if (!this.costs.hasLearned('decode')) return 0
    const { pass } = this.costs.decode
    return slotGaps(used).reduce((sum, gap) => sum + gapMs(gap, pass, this.#fillMs(gap)), 0)
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
 * Chooses a slot such that the ids in use stay consecutive, as llama.cpp only puts sequences with consecutive ids into
 * one pass over the weights. A slot that joins two runs of ids comes first, then one beside a run, then any. In a tie,
 * a slot between the ids in use wins, then the first of `free`, whose content is the cheapest to lose.
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
