import type { Backend } from '../../contracts/model/backend.js'
import type { EngineCosts } from '../costs/engine-costs.js'
import type { Sequence } from '../requests/sequence.js'
import type { Match, PrefixIndex, Slot } from '../engine-parts.js'
import { heldTokens, isFree, sharedLength } from './prefix-index.js'
import type { FoundState, SavedState } from './states/saved-state.js'
import type { StateCache } from './states/state-cache.js'
import { lengthOf } from './states/state-index.js'

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

/**
 * The cheapest way into a slot, by what was learned of costs: go on where a slot's tokens are the
 * same, copy them from any slot, restore what was saved, or compute. What is lost with a slot's other tokens counts with the
 * chance that they are wanted again, which falls from the most to the least recently used one; and a
 * place that makes every step longer counts with that, but with no more than it costs until the
 * sequence is moved, and the move. A slot that the request asks for is taken where it is free.
 */
export function chooseSlot(
  sequence: Sequence,
  slots: readonly Slot[],
  index: PrefixIndex,
  costs: EngineCosts,
  backend: Backend,
  states: StateCache,
): SlotChoice {
  const free = slots.filter(isFree).toSorted(cheapestToLose)
  const used = slots.filter((slot) => !isFree(slot)).map((slot) => slot.id)
  const empty = free.filter((slot) => slot.length === 0)
  const wished = free.find(({ id }) => id === sequence.request.slot)
  const targets = new Set([wished ?? prefer(backend, free, used, slots), wished ?? free[0]!])
  if (wished === undefined && empty.length > 0 && empty.length < free.length)
    targets.add(prefer(backend, empty, used, slots))

  const cost = (choice: SlotChoice): number => {
    const { slot, source, shared, found, checkpoint } = choice
    const own = keptBy(choice)
    const rank = free.indexOf(slot) + 1
    const wanted = (costs.reuseShare * rank) / free.length
    const copyMs =
      slot === source ? 0 : checkpoint === undefined ? costs.copyMs : states.copyMs(source)
    const cutMs = checkpoint === undefined ? 0 : costs.states.loadMs(checkpoint.bytes)
    const lossMs = states.worth.lossMs(slot, own, wanted)
    const loadMs = found === undefined ? 0 : states.loadMs(found)
    const placeMs = backend.layoutMs?.([...used, slot.id]) ?? 0
    const steps = (sequence.maxTokens - sequence.generatedTokens) / 2
    const missing = sequence.tokens.length - shared
    const layoutMs = Math.min(placeMs * steps, 2 * costs.copyMs)
    return costs.steps.tokensMs(missing) + copyMs + cutMs + loadMs + lossMs + layoutMs
  }

  const sources = bestSources(sequence, index).flatMap((match) => reach(sequence, match, states))
  const found = states.find(sequence)
  const choices: SlotChoice[] = []
  for (const source of sources) {
    if (isFree(source.slot) && (wished ?? source.slot) === source.slot)
      choices.push({ ...source, source: source.slot })
  }
  for (const slot of targets) {
    const own = { slot, shared: sequence.request.cache ? sharedLength(slot, sequence) : 0 }
    const [reached = { slot, shared: 0 }] = reach(sequence, own, states)
    choices.push({ ...reached, source: slot })
    for (const { slot: source, ...more } of sources) {
      if (source !== slot) choices.push({ ...more, slot, source })
    }
    if (found !== undefined) choices.push({ slot, source: slot, shared: found.shared, found })
  }
  const best = choices.reduce((best, choice) => (cost(choice) < cost(best) ? choice : best))
  const most = Math.max(0, ...sources.map((found) => found.shared))
  const passedOver: ('copy' | 'state')[] = []
  if (best.slot === best.source && most > best.shared) passedOver.push('copy')
  if (best.found === undefined && (found?.shared ?? 0) > best.shared) passedOver.push('state')
  return { ...best, passedOver }
}

/** What was passed over is thought of as cheaper from then on: the choice is carried out. */
export function noteCosts({ passedOver = [] }: SlotChoice, costs: EngineCosts): void {
  if (passedOver.includes('copy')) costs.onCopyPassedOver()
  if (passedOver.includes('state')) costs.states.onPassedOver()
}

/** How many tokens of the sequence its slot keeps as they are. */
export const keptBy = ({ slot, source, shared, found }: SlotChoice): number =>
  slot === source && found === undefined ? shared : 0

/** A match, as far as the slot can be cut back to it. */
interface Reach extends Match {
  readonly checkpoint?: SavedState
}

/** How much of a match can be used, if any. */
export function reach(sequence: Sequence, { slot, shared }: Match, states: StateCache): Reach[] {
  if (states.canCut(slot.id, shared)) return [{ slot, shared }]
  const checkpoint = states.checkpoint(sequence, shared)
  return checkpoint === undefined ? [] : [{ slot, shared: lengthOf(checkpoint), checkpoint }]
}

/** The longest match of an idle and of a running slot; of equal ones that with the least beyond it. */
export function bestSources(sequence: Sequence, index: PrefixIndex): Match[] {
  return (['idle', 'running'] as const).flatMap((kind) => {
    let best: Match | undefined
    for (const match of index.matches(sequence, kind)) {
      const longer = match.shared - (best?.shared ?? 0)
      const isTighter = best === undefined || heldTokens(match.slot) < heldTokens(best.slot)
      if (longer > 0 || (longer === 0 && isTighter)) best = match
    }
    // Hashes have found it; every token is compared before it is used.
    const shared = best === undefined ? 0 : sharedLength(best.slot, sequence)
    return best === undefined || shared === 0 ? [] : [{ slot: best.slot, shared }]
  })
}

function prefer(
  backend: Backend,
  free: readonly Slot[],
  used: readonly number[],
  slots: readonly Slot[],
): Slot {
  const ids = free.map((slot) => slot.id)
  const preferred = backend.preferSlot(ids, used)
  const slot = slots[preferred]
  if (slot !== undefined && ids.includes(preferred)) return slot
  throw new RangeError(`preferSlot: expected one of ${ids.join()}, instead got ${preferred}`)
}

/** Empty slots first, then the least recently used. */
const cheapestToLose = (a: Slot, b: Slot): number =>
  Number(a.length > 0) - Number(b.length > 0) || a.usedAt - b.usedAt || a.id - b.id
