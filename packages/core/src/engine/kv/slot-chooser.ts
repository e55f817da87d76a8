import type { Match, PrefixIndex, Slot } from '../engine-parts.js'
import { type FoundState, type SavedState, lengthOf } from './states/saved-state.js'
import type { Backend } from '../../contracts/model/backend.js'
import { layoutMs, preferSlot } from '../backend-calls.js'
import type { EngineCosts } from '../costs/engine-costs.js'
import type { Sequence } from '../requests/sequence.js'
import { heldTokens, isFree, sharedLength } from './prefix-index.js'
import type { StateCache } from './states/state-cache.js'
import type { CacheOrigin } from '../../contracts/engine/request-report.js'

/**
 * A slot for a sequence, and whose tokens it begins with: its own, a copy of the source's, or those of
 * a saved state.
 */
export interface SlotChoice {
  readonly slot: Slot
  readonly source: Slot
  readonly shared: number
  readonly found?: FoundState
  /** What the slot's, or the source's, tokens are cut back to, where that needs one. */
  readonly checkpoint?: SavedState
  /** What had more of its tokens, and seemed to cost more. */
  readonly passedOver?: readonly ('copy' | 'state')[]
}

/** How many tokens of the sequence its slot keeps as they are. */
export const keptBy = ({ slot, source, shared, found }: SlotChoice): number =>
  slot === source && found === undefined ? shared : 0

/** A match, as far as the slot can be cut back to it. */
interface Reach extends Match {
  readonly checkpoint?: SavedState
}

/** Where a sequence may go. */
interface Places {
  /** The slots without an owner, from the one that is cheapest to lose. */
  readonly free: readonly Slot[]
  /** The slots with an owner. */
  readonly used: readonly number[]
  /** The slot that the request asks for, where it is free. */
  readonly wished: Slot | undefined
  /** Those worth a look whatever they hold. */
  readonly targets: ReadonlySet<Slot>
}

/** Finds where a sequence's first tokens are, and the slot that it costs the least to have them in. */
export class SlotChooser {
  constructor(
    private readonly slots: readonly Slot[],
    private readonly index: PrefixIndex,
    private readonly costs: EngineCosts,
    private readonly backend: Backend,
    private readonly states: StateCache,
  ) {}

  /**
   * The cheapest way into a slot, by what was learned of costs: go on where a slot's tokens are the
   * same, copy them from any slot, restore what was saved, or compute. What is lost with a slot's other
   * tokens counts with the chance that they are wanted again, which falls from the most to the least
   * recently used one; and a place that makes every step longer counts with that, but with no more than
   * it costs until the sequence is moved, and the move. A slot that the request asks for is taken where
   * it is free.
   */
  choose(sequence: Sequence): SlotChoice {
    const places = this.#places(sequence)
    const sources = this.#reachedSources(sequence)
    const found = this.states.find(sequence)
    const cost = (choice: SlotChoice): number => this.#costMs(choice, sequence, places)
    const best = this.#candidates(sequence, places, sources, found).reduce((best, choice) =>
      cost(choice) < cost(best) ? choice : best,
    )
    const most = Math.max(0, ...sources.map(({ shared }) => shared))
    const passedOver: ('copy' | 'state')[] = []
    if (best.slot === best.source && most > best.shared) passedOver.push('copy')
    if (best.found === undefined && (found?.shared ?? 0) > best.shared) passedOver.push('state')
    return { ...best, passedOver }
  }

  /** What was passed over is thought of as cheaper from then on: the choice is carried out. */
  onChosen({ passedOver = [] }: SlotChoice): void {
    if (passedOver.includes('copy')) this.costs.onCopyPassedOver()
    if (passedOver.includes('state')) this.costs.states.onPassedOver()
  }

  /** How many tokens of a sequence are somewhere from where it is cheaper to have them than to compute them. */
  lookUp(sequence: Sequence): number {
    const { index, costs, states } = this
    let most: number
    if (states.cutsAnywhere) {
      const idle = index.idle(sequence)
      const running = index.running(sequence)
      const isWorthIt = costs.steps.tokensMs(running - idle) > costs.copyMs
      most = running > idle && isWorthIt ? running : idle
    } else {
      most = Math.max(0, ...this.#reachedSources(sequence).map(({ shared }) => shared))
    }
    const found = states.find(sequence)
    if (found === undefined || found.shared <= most) return most
    return costs.steps.tokensMs(found.shared - most) > states.loadMs(found) ? found.shared : most
  }

  /** How many tokens it begins with that some conversation has, of which maybe none can be used. */
  known(sequence: Sequence): number {
    const { index, states } = this
    return Math.max(index.idle(sequence), index.running(sequence), states.known(sequence))
  }

  #places(sequence: Sequence): Places {
    const free = this.slots.filter(isFree).toSorted(cheapestToLose)
    const used = this.slots.filter((slot) => !isFree(slot)).map(({ id }) => id)
    const empty = free.filter(({ length }) => length === 0)
    const wished = free.find(({ id }) => id === sequence.request.slot)
    const targets = new Set([wished ?? this.#prefer(free, used), wished ?? free[0]!])
    if (wished === undefined && empty.length > 0 && empty.length < free.length)
      targets.add(this.#prefer(empty, used))
    return { free, used, wished, targets }
  }

  #candidates(
    sequence: Sequence,
    { wished, targets }: Places,
    sources: readonly Reach[],
    found: FoundState | undefined,
  ): SlotChoice[] {
    const choices: SlotChoice[] = []
    for (const source of sources) {
      if (isFree(source.slot) && (wished ?? source.slot) === source.slot)
        choices.push({ ...source, source: source.slot })
    }
    for (const slot of targets) {
      const own = { slot, shared: sequence.request.cache ? sharedLength(slot, sequence) : 0 }
      const [reached = { slot, shared: 0 }] = this.#reach(sequence, own)
      choices.push({ ...reached, source: slot })
      for (const { slot: source, ...more } of sources) {
        if (source !== slot) choices.push({ ...more, slot, source })
      }
      if (found !== undefined) choices.push({ slot, source: slot, shared: found.shared, found })
    }
    return choices
  }

  /** What the sequence costs from this choice on, with what others lose by it. */
  #costMs(choice: SlotChoice, sequence: Sequence, { free, used }: Places): number {
    const { slot, source, shared, found, checkpoint } = choice
    const { costs, states } = this
    const rank = free.indexOf(slot) + 1
    const wanted = (costs.reuseShare * rank) / free.length
    const copyMs =
      slot === source ? 0 : checkpoint === undefined ? costs.copyMs : states.copyMs(source)
    const cutMs = checkpoint === undefined ? 0 : costs.states.loadMs(checkpoint.bytes)
    const lossMs = states.worth.lossMs(slot, keptBy(choice), wanted)
    const loadMs = found === undefined ? 0 : states.loadMs(found)
    const placeMs = layoutMs(this.backend, [...used, slot.id])
    const steps = (sequence.maxTokens - sequence.generatedTokens) / 2
    const missing = sequence.tokens.length - shared
    const lostMs = Math.min(placeMs * steps, 2 * costs.copyMs)
    return costs.steps.tokensMs(missing) + copyMs + cutMs + loadMs + lossMs + lostMs
  }

  #reachedSources(sequence: Sequence): Reach[] {
    return this.#bestSources(sequence).flatMap((match) => this.#reach(sequence, match))
  }

  /** How much of a match can be used, if any. */
  #reach(sequence: Sequence, { slot, shared }: Match): Reach[] {
    if (this.states.canCut(slot.id, shared)) return [{ slot, shared }]
    const checkpoint = this.states.checkpoint(sequence, shared)
    return checkpoint === undefined ? [] : [{ slot, shared: lengthOf(checkpoint), checkpoint }]
  }

  /** The longest match of an idle and of a running slot; of equal ones that with the least beyond it. */
  #bestSources(sequence: Sequence): Match[] {
    return (['idle', 'running'] as const).flatMap((kind) => {
      let best: Match | undefined
      for (const match of this.index.matches(sequence, kind)) {
        const longer = match.shared - (best?.shared ?? 0)
        const isTighter = best === undefined || heldTokens(match.slot) < heldTokens(best.slot)
        if (longer > 0 || (longer === 0 && isTighter)) best = match
      }
      // Hashes have found it; every token is compared before it is used.
      const shared = best === undefined ? 0 : sharedLength(best.slot, sequence)
      return best === undefined || shared === 0 ? [] : [{ slot: best.slot, shared }]
    })
  }

  #prefer(free: readonly Slot[], used: readonly number[]): Slot {
    const ids = free.map(({ id }) => id)
    return this.slots[preferSlot(this.backend, ids, used)]!
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
  { reader, cutsAnywhere }: Pick<StateCache, 'reader' | 'cutsAnywhere'>,
): CacheOrigin {
  const { computedTokens, request } = sequence
  if (computedTokens > 0) {
    if (found !== undefined) {
      return { from: reader.isFromFile(found, sequence) ? 'disk' : 'ram' }
    }
    if (checkpoint !== undefined) return { from: 'checkpoint' }
    return { from: slot === source ? 'slot' : 'copy' }
  }
  if (!request.cache) return { from: 'none', why: 'off' }
  if (shared > 0) return { from: 'none', why: 'failed' }
  if (known === 0) return { from: 'none', why: 'unknown' }
  return { from: 'none', why: cutsAnywhere ? 'computing_is_faster' : 'cannot_be_cut' }
}
