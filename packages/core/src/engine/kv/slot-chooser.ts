import type { Match, PrefixIndex, Slot } from '../engine-parts.js'
import { type FoundState, type SavedState, lengthOf } from './states/state-index.js'
import type { Backend, SlotId } from '../../contracts/model/backend.js'
import type { Clock } from '../../contracts/services.js'
import { layoutMs, preferSlot } from '../backend-calls.js'
import type { EngineCosts } from '../costs/engine-costs.js'
import type { Sequence } from '../requests/sequence.js'
import { minimumWait } from './block-chain.js'
import { heldTokens, longestMatch, sharedLength } from './prefix-index.js'
import type { StateCache } from './states/state-cache.js'
import type { CacheOrigin } from '../../contracts/engine/request-report.js'

/** The leading tokens of a sequence that a slot holds, as far as the slot can be cut back to them. */
interface Usable extends Match {
  /** For slots that cannot be cut: the checkpoint that is restored over the slot's content. */
  readonly checkpoint?: SavedState
}

/** A slot that a sequence could get, and where its cached tokens would come from. */
type Candidate = {
  readonly slot: Slot
  /** How many leading tokens of the sequence are cached there; the others are computed. */
  readonly shared: number
  /** How many of its present tokens the slot keeps. */
  readonly kept: number
} & (
  | { readonly from: 'slot'; readonly checkpoint?: SavedState }
  | { readonly from: 'copy'; readonly source: Slot; readonly checkpoint?: SavedState }
  | { readonly from: 'state'; readonly found: FoundState }
)

/** The cheapest candidate, and which alternatives it was preferred to. */
export type SlotChoice = Candidate & {
  /** How many of the sequence's leading tokens a slot holds, usable or not, or a usable saved state has. */
  readonly known: number
  /** Whether copying another slot would have given more tokens, but seemed to cost more. */
  readonly passesOverCopy: boolean
  /** Whether a saved state would have given more tokens, but seemed to cost more. */
  readonly passesOverState: boolean
}

/** The input of a choice. */
interface Search {
  readonly sequence: Sequence
  /** The slots without an owner, the cheapest to lose first. */
  readonly free: readonly Slot[]
  /** The slots with an owner. */
  readonly used: readonly SlotId[]
  /** Whether some slot has the tokens of a program. */
  readonly isAnyOfProgram: boolean
  /** Whether the chance counts that programs return at any time, as no slot has to be lost; else within a second. */
  readonly ever: boolean
  /** The idle and the running slot with the most leading tokens of the sequence. */
  readonly sources: readonly Usable[]
  /** The saved state with the most leading tokens of the sequence. */
  readonly found: FoundState | undefined
}

/** Finds the cached tokens of a sequence, and the slot in which it costs the least. */
export class SlotChooser {
  constructor(
    private readonly slots: readonly Slot[],
    private readonly index: PrefixIndex,
    private readonly costs: EngineCosts,
    private readonly backend: Backend,
    private readonly states: StateCache,
    private readonly clock: Pick<Clock, 'now'>,
  ) {}

  /**
   * The slot in which the sequence costs the least, by the learned costs. The sum of
   *
   * - getting its leading tokens: by continuing in the slot that has them, copying that slot, restoring a saved state,
   *   or computing;
   * - losing the slot's other tokens, times the chance that they are needed again;
   * - longer steps, if the slot's place makes them longer; at most the cost of moving the sequence later.
   *
   * A slot that the request asks for is taken if it is free.
   */
  choose(sequence: Sequence): SlotChoice {
    const { states } = this
    const free: Slot[] = []
    const used: SlotId[] = []
    let isAnyOfProgram = false
    for (const slot of this.slots) {
      if (slot.owner === undefined) free.push(slot)
      else used.push(slot.id)
      isAnyOfProgram ||= slot.program !== undefined
    }
    free.sort(cheapestToLose)
    const ever = free[0]?.length === 0
    const { held, sources } = this.#sources(sequence)
    const found = states.find(sequence)
    const search = { sequence, free, used, isAnyOfProgram, ever, sources, found }
    const candidates = this.#candidates(search)
    let best = candidates[0]!
    let leastMs = Infinity
    // Usually there is only one.
    for (const candidate of candidates.length > 1 ? candidates : []) {
      const ms = this.#costMs(candidate, search)
      if (!(ms < leastMs)) continue
      best = candidate
      leastMs = ms
    }
    let inSlots = 0
    for (const { shared } of sources) inSlots = Math.max(inSlots, shared)
    const inStates = found?.shared ?? 0
    return {
      ...best,
      known: Math.max(held, inStates),
      passesOverCopy: best.from !== 'copy' && inSlots > best.shared,
      passesOverState: best.from !== 'state' && inStates > best.shared,
    }
  }

  /** How many leading tokens of a sequence are cached somewhere from where getting them is cheaper than computing. */
  lookUp(sequence: Sequence): number {
    const { index, costs, states } = this
    let most = 0
    if (states.cutsAnywhere) {
      most = longestMatch(index, sequence, 'idle')
      const running = longestMatch(index, sequence, 'running')
      if (running > most && costs.steps.tokensMs(running - most) > costs.copyMs) most = running
    } else {
      for (const { shared } of this.#sources(sequence).sources) most = Math.max(most, shared)
    }
    const found = states.find(sequence)
    if (found === undefined || found.shared <= most) return most
    return costs.steps.tokensMs(found.shared - most) > states.loadMs(found) ? found.shared : most
  }

  /** Idle slots, in rising order of the cost of their loss per token. */
  inOrderOfLoss(idle: readonly Slot[]): readonly Slot[] {
    const free = idle.toSorted(cheapestToLose)
    const search = { free, ever: false }
    const costs = new Map<Slot, number>()
    for (const [index, slot] of free.entries()) {
      const chance = this.#reuseChance(slot, search, index)
      costs.set(slot, this.states.worth.lossMs(slot, 0, chance) / slot.length)
    }
    return free.toSorted((a, b) => costs.get(a)! - costs.get(b)!)
  }

  /**
   * The expected cost in milliseconds of losing an idle slot's content beyond its first `kept` tokens, if it is needed
   * again with this chance. Tokens that another slot has, too, can be copied from there.
   */
  lossMs(slot: Slot, kept: number, chance: number): number {
    const { worth, cutsAnywhere } = this.states
    const isMuch = cutsAnywhere && slot.length - kept >= minimumWait
    const elsewhere = isMuch ? this.index.sharedWithOthers(slot) : 0
    return worth.lossMs(slot, Math.max(kept, elsewhere), chance)
  }

  #candidates(search: Search): Candidate[] {
    const { sequence, free, used, isAnyOfProgram, sources, found } = search
    const ids: SlotId[] = []
    for (const { id } of free) ids.push(id)
    let empty = 0
    while (free[empty]?.length === 0) empty++
    const asked = this.slots[sequence.request.slot ?? -1]
    const wished = asked?.owner === undefined ? asked : undefined
    // Slots to consider whatever they hold.
    const targets = new Set<Slot>()
    if (wished !== undefined) targets.add(wished)
    else {
      targets.add(this.slots[preferSlot(this.backend, ids, used)]!).add(free[0]!)
      if (empty > 0 && empty < free.length) {
        targets.add(this.slots[preferSlot(this.backend, ids.slice(0, empty), used)]!)
      }
      if (isAnyOfProgram) targets.add(this.#cheapest(search))
    }
    const candidates: Candidate[] = []
    for (const source of sources) {
      if (source.slot.owner === undefined && (wished ?? source.slot) === source.slot) {
        candidates.push({ from: 'slot', ...source, kept: source.shared })
      }
    }
    for (const slot of targets) {
      const shared = sequence.request.cache ? sharedLength(slot, sequence) : 0
      const own = shared > 0 ? this.#usable(sequence, { slot, shared }) : undefined
      candidates.push({ from: 'slot', slot, shared: 0, kept: own?.shared ?? 0, ...own })
      for (const { slot: source, ...more } of sources) {
        if (source !== slot) candidates.push({ from: 'copy', slot, source, kept: 0, ...more })
      }
      if (found !== undefined) {
        candidates.push({ from: 'state', slot, shared: found.shared, kept: 0, found })
      }
    }
    return candidates
  }

  /** The cost of the sequence with this candidate, including what other requests lose by it. */
  #costMs(candidate: Candidate, search: Search): number {
    const { slot, shared, kept } = candidate
    const { costs, states } = this
    const { sequence, used } = search
    let ms = costs.steps.tokensMs(sequence.tokens.length - shared)
    if (candidate.from === 'state') ms += states.loadMs(candidate.found)
    else {
      const { checkpoint } = candidate
      if (candidate.from === 'copy') {
        ms += checkpoint === undefined ? costs.copyMs : states.copyMs(candidate.source)
      }
      if (checkpoint !== undefined) ms += costs.states.loadMs(checkpoint.bytes)
    }
    const lossMs = this.lossMs(slot, kept, this.#reuseChance(slot, search))
    const placeMs = layoutMs(this.backend, [...used, slot.id])
    const steps = (sequence.maxTokens - sequence.generatedTokens) / 2
    return ms + lossMs + Math.min(placeMs * steps, 2 * costs.copyMs)
  }

  /** The idle slot whose loss costs the least. */
  #cheapest(search: Search): Slot {
    let [cheapest, leastMs] = [search.free[0]!, Infinity]
    for (const [index, slot] of search.free.entries()) {
      const ms = this.lossMs(slot, 0, this.#reuseChance(slot, search, index))
      if (ms < leastMs) [cheapest, leastMs] = [slot, ms]
    }
    return cheapest
  }

  /**
   * The chance that an idle slot's content is needed again: that its program returns; without a program, a chance that
   * falls from the most to the least recently used slot.
   */
  #reuseChance(
    slot: Slot,
    { free, ever }: Pick<Search, 'free' | 'ever'>,
    index = free.indexOf(slot),
  ): number {
    const chance = slot.program?.chanceFor(slot, this.clock.now(), ever)
    return chance ?? (this.costs.reuseShare * (index + 1)) / free.length
  }

  /**
   * The usable parts of the longest match among idle slots and of that among running ones; of equal matches, the slot
   * with the fewest further tokens. `held` is the longest match, usable or not.
   */
  #sources(sequence: Sequence): { readonly held: number; readonly sources: readonly Usable[] } {
    const sources: Usable[] = []
    let held = 0
    for (const kind of ['idle', 'running'] as const) {
      let best: Match | undefined
      for (const match of this.index.matches(sequence, kind)) {
        const longer = match.shared - (best?.shared ?? 0)
        const isTighter = best === undefined || heldTokens(match.slot) < heldTokens(best.slot)
        if (longer > 0 || (longer === 0 && isTighter)) best = match
      }
      // It was found by hashes: all tokens are compared before it is used.
      const shared = best === undefined ? 0 : sharedLength(best.slot, sequence)
      if (best === undefined || shared === 0) continue
      held = Math.max(held, shared)
      const usable = this.#usable(sequence, { slot: best.slot, shared })
      if (usable !== undefined) sources.push(usable)
    }
    return { held, sources }
  }

  /** How much of a match can be used, if any. */
  #usable(sequence: Sequence, match: Match): Usable | undefined {
    if (this.states.canCut(match.slot.id, match.shared)) return match
    const checkpoint = this.states.checkpoint(sequence, match.shared)
    return checkpoint && { slot: match.slot, shared: lengthOf(checkpoint), checkpoint }
  }
}

/** Empty slots first, then the least recently used. */
const cheapestToLose = (a: Slot, b: Slot): number =>
  Number(a.length > 0) - Number(b.length > 0) || a.usedAt - b.usedAt || a.id - b.id

/**
 * Where the cached tokens of a sequence came from, once its slot is filled, or why there are none.
 *
 * @param known - how many leading tokens some conversation has
 */
export function originOf(
  choice: SlotChoice,
  sequence: Sequence,
  known: number,
  { transfer, cutsAnywhere }: StateCache,
): CacheOrigin {
  const { computedTokens, request } = sequence
  if (computedTokens > 0) {
    if (choice.from === 'state') {
      return { from: transfer.isFromFile(choice.found, sequence) ? 'disk' : 'ram' }
    }
    return { from: choice.checkpoint === undefined ? choice.from : 'checkpoint' }
  }
  if (!request.cache) return { from: 'none', why: 'off' }
  if (choice.shared > 0) return { from: 'none', why: 'failed' }
  if (known === 0) return { from: 'none', why: 'unknown' }
  return { from: 'none', why: cutsAnywhere ? 'computing_is_faster' : 'cannot_be_cut' }
}
