import type { Match, PrefixIndex, Slot } from '../engine-parts.js'
import { type FoundState, type SavedState, lengthOf } from './states/state-index.js'
import type { Backend } from '../../contracts/model/backend.js'
import { layoutMs, preferSlot } from '../backend-calls.js'
import type { EngineCosts } from '../costs/engine-costs.js'
import type { Programs } from '../programs/programs.js'
import type { Sequence } from '../requests/sequence.js'
import { minimumWait } from './block-chain.js'
import { heldTokens, longestMatch, sharedLength } from './prefix-index.js'
import type { StateCache } from './states/state-cache.js'
import type { CacheOrigin } from '../../contracts/engine/request-report.js'

/** A way into a slot: whose tokens it begins with, its own, a copy of the source's, or those of a saved state. */
interface Way {
  readonly slot: Slot
  readonly source: Slot
  readonly shared: number
  /** How many tokens of the sequence the slot keeps as they are. */
  readonly kept: number
  readonly found?: FoundState
  /** What the slot's, or the source's, tokens are cut back to, where that needs one. */
  readonly checkpoint?: SavedState
}

/** A slot for a sequence, and how it gets its first tokens. */
export interface SlotChoice extends Way {
  /** How many tokens it begins with that a slot or a state has, of which maybe none can be used. */
  readonly known: number
  /** Whether a copy, or a saved state, had more of its tokens and seemed to cost more. */
  readonly passesOverCopy: boolean
  readonly passesOverState: boolean
}

/** A match, as far as the slot can be cut back to it. */
interface Reach extends Match {
  readonly checkpoint?: SavedState
}

type Chances = ReadonlyMap<Slot, number>
const noChances: Chances = new Map()

/** What a choice is made from. */
interface Findings {
  readonly sequence: Sequence
  /** The slots without an owner, the cheapest to lose first, and the others. */
  readonly free: readonly Slot[]
  readonly used: readonly number[]
  /** How likely programs want theirs. */
  readonly chances: Chances
  /** Where the sequence's tokens are. */
  readonly sources: readonly Reach[]
  readonly found: FoundState | undefined
}

/** Finds where a sequence's first tokens are, and the slot that it costs the least to have them in. */
export class SlotChooser {
  constructor(
    private readonly slots: readonly Slot[],
    private readonly index: PrefixIndex,
    private readonly costs: EngineCosts,
    private readonly backend: Backend,
    private readonly states: StateCache,
    private readonly programs: Programs,
  ) {}

  /**
   * The cheapest way into a slot, by what was learned of costs: go on where a slot's tokens are the
   * same, copy them from any slot, restore what was saved, or compute. What is lost with a slot's other
   * tokens counts with the chance that they are wanted again: that its program goes on, or else one that
   * falls from the most to the least recently used one; and a place that makes every step longer counts with
   * that, but with no more than it costs until the sequence is moved, and the move. A slot that the request
   * asks for is taken where it is free.
   */
  choose(sequence: Sequence): SlotChoice {
    const free: Slot[] = []
    const used: number[] = []
    for (const slot of this.slots) {
      if (slot.owner === undefined) free.push(slot)
      else used.push(slot.id)
    }
    free.sort(cheapestToLose)
    const chances = this.programs.slots.size > 0 ? this.programs.chances() : noChances
    const { known, sources } = this.#sources(sequence)
    const found = this.states.find(sequence)
    const findings = { sequence, free, used, chances, sources, found }
    const ways = this.#ways(findings)
    let best = ways[0]!
    let leastMs = Infinity
    // Most often there is but one.
    for (const way of ways.length > 1 ? ways : []) {
      const ms = this.#costMs(way, findings)
      if (!(ms < leastMs)) continue
      best = way
      leastMs = ms
    }
    let reached = 0
    for (const { shared } of sources) reached = Math.max(reached, shared)
    return {
      ...best,
      known: Math.max(known, found?.shared ?? 0),
      passesOverCopy: best.slot === best.source && reached > best.shared,
      passesOverState: best.found === undefined && (found?.shared ?? 0) > best.shared,
    }
  }

  /** How many tokens of a sequence are somewhere from where it is cheaper to have them than to compute them. */
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

  /** Idle slots, those first whose loss costs the least for each of their tokens. */
  inOrderOfLoss(idle: readonly Slot[]): readonly Slot[] {
    const free = idle.toSorted(cheapestToLose)
    const chances = this.programs.chances()
    const lossMs = (slot: Slot): number =>
      this.states.worth.lossMs(slot, 0, this.#wanted(slot, { free, chances })) / slot.length
    const costs = new Map(free.map((slot) => [slot, lossMs(slot)]))
    return free.toSorted((a, b) => costs.get(a)! - costs.get(b)!)
  }

  #ways(findings: Findings): Way[] {
    const { sequence, free, used, chances, sources, found } = findings
    const ids: number[] = []
    for (const { id } of free) ids.push(id)
    let empty = 0
    while (free[empty]?.length === 0) empty++
    const asked = this.slots[sequence.request.slot ?? -1]
    const wished = asked?.owner === undefined ? asked : undefined
    // Those worth a look whatever they hold.
    const targets = new Set<Slot>()
    if (wished !== undefined) targets.add(wished)
    else {
      targets.add(this.slots[preferSlot(this.backend, ids, used)]!).add(free[0]!)
      if (empty > 0 && empty < free.length) {
        targets.add(this.slots[preferSlot(this.backend, ids.slice(0, empty), used)]!)
      }
      if (chances.size > 0) targets.add(this.#cheapest(findings))
    }
    const ways: Way[] = []
    for (const { slot, ...more } of sources) {
      if (slot.owner === undefined && (wished ?? slot) === slot) {
        ways.push({ slot, source: slot, kept: more.shared, ...more })
      }
    }
    for (const slot of targets) {
      const shared = sequence.request.cache ? sharedLength(slot, sequence) : 0
      const own = shared > 0 ? this.#reach(sequence, { slot, shared }) : undefined
      ways.push({ slot, source: slot, shared: 0, kept: own?.shared ?? 0, ...own })
      for (const { slot: source, ...more } of sources) {
        if (source !== slot) ways.push({ slot, source, kept: 0, ...more })
      }
      if (found !== undefined) {
        ways.push({ slot, source: slot, shared: found.shared, kept: 0, found })
      }
    }
    return ways
  }

  /** The idle slot whose loss costs the least. */
  #cheapest(findings: Findings): Slot {
    let [cheapest, leastMs] = [findings.free[0]!, Infinity]
    for (const slot of findings.free) {
      const ms = this.lossMs(slot, 0, this.#wanted(slot, findings))
      if (ms < leastMs) [cheapest, leastMs] = [slot, ms]
    }
    return cheapest
  }

  /** The chance that what an idle slot holds is wanted again. */
  #wanted(slot: Slot, { free, chances }: Pick<Findings, 'free' | 'chances'>): number {
    const rank = free.indexOf(slot) + 1
    return chances.get(slot) ?? (this.costs.reuseShare * rank) / free.length
  }

  /**
   * Milliseconds that it takes, in the mean, to have back what is behind the first `kept` tokens of an idle slot, when it
   * is wanted with this chance. What another slot has too can be copied from there.
   */
  lossMs(slot: Slot, kept: number, chance: number): number {
    const { worth, cutsAnywhere } = this.states
    const isMuch = cutsAnywhere && slot.length - kept >= minimumWait
    const elsewhere = isMuch ? this.index.sharedWithOthers(slot) : 0
    return worth.lossMs(slot, Math.max(kept, elsewhere), chance)
  }

  /** What the sequence costs from this choice on, with what others lose by it. */
  #costMs(way: Way, findings: Findings): number {
    const { slot, source, shared, kept, found, checkpoint } = way
    const { costs, states } = this
    const { sequence, used } = findings
    const lossMs = this.lossMs(slot, kept, this.#wanted(slot, findings))
    let ms = costs.steps.tokensMs(sequence.tokens.length - shared)
    if (slot !== source) ms += checkpoint === undefined ? costs.copyMs : states.copyMs(source)
    if (checkpoint !== undefined) ms += costs.states.loadMs(checkpoint.bytes)
    if (found !== undefined) ms += states.loadMs(found)
    const placeMs = layoutMs(this.backend, [...used, slot.id])
    const steps = (sequence.maxTokens - sequence.generatedTokens) / 2
    return ms + lossMs + Math.min(placeMs * steps, 2 * costs.copyMs)
  }

  /**
   * What can be used of the longest match of an idle and of a running slot, of equal ones that with the
   * least beyond it; and how long the matches are.
   */
  #sources(sequence: Sequence): { readonly known: number; readonly sources: readonly Reach[] } {
    const sources: Reach[] = []
    let known = 0
    for (const kind of ['idle', 'running'] as const) {
      let best: Match | undefined
      for (const match of this.index.matches(sequence, kind)) {
        const longer = match.shared - (best?.shared ?? 0)
        const isTighter = best === undefined || heldTokens(match.slot) < heldTokens(best.slot)
        if (longer > 0 || (longer === 0 && isTighter)) best = match
      }
      // Hashes have found it; every token is compared before it is used.
      const shared = best === undefined ? 0 : sharedLength(best.slot, sequence)
      if (best === undefined || shared === 0) continue
      known = Math.max(known, shared)
      const reach = this.#reach(sequence, { slot: best.slot, shared })
      if (reach !== undefined) sources.push(reach)
    }
    return { known, sources }
  }

  /** How much of a match can be used, if any. */
  #reach(sequence: Sequence, match: Match): Reach | undefined {
    if (this.states.canCut(match.slot.id, match.shared)) return match
    const checkpoint = this.states.checkpoint(sequence, match.shared)
    return checkpoint && { slot: match.slot, shared: lengthOf(checkpoint), checkpoint }
  }
}

/** Empty slots first, then the least recently used. */
const cheapestToLose = (a: Slot, b: Slot): number =>
  Number(a.length > 0) - Number(b.length > 0) || a.usedAt - b.usedAt || a.id - b.id

/**
 * Where the first tokens of a sequence were, or why they were nowhere.
 *
 * @param known - how many of them some conversation has
 */
export function originOf(
  { slot, source, shared, found, checkpoint }: SlotChoice,
  sequence: Sequence,
  known: number,
  { transfer, cutsAnywhere }: StateCache,
): CacheOrigin {
  const { computedTokens, request } = sequence
  if (computedTokens > 0) {
    if (found !== undefined) return { from: transfer.isFromFile(found, sequence) ? 'disk' : 'ram' }
    if (checkpoint !== undefined) return { from: 'checkpoint' }
    return { from: slot === source ? 'slot' : 'copy' }
  }
  if (!request.cache) return { from: 'none', why: 'off' }
  if (shared > 0) return { from: 'none', why: 'failed' }
  if (known === 0) return { from: 'none', why: 'unknown' }
  return { from: 'none', why: cutsAnywhere ? 'computing_is_faster' : 'cannot_be_cut' }
}
