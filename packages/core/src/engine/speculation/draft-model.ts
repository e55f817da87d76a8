import type {
  Backend,
  BatchItem,
  ModelInfo,
  Sampler,
  SlotId,
  StepResult,
} from '../../contracts/model/backend.js'
import type { SamplingParams } from '../../contracts/model/sampling.js'
import type { Clock } from '../../contracts/services.js'
import type { TokenId } from '../../contracts/model/tokenizer.js'
import { CllmError } from '../../errors/cllm-error.js'
import { type CheckedOutputs, checkOutputs, createSampler, truncate } from '../backend-calls.js'
import { sameTokens } from '../kv/block-chain.js'
import { StepCostModel, workOf } from '../costs/pass-costs.js'
import type { Sequence } from '../requests/sequence.js'
import type { GuessCosts } from './choose-drafts.js'

/** How many draft tokens to make for a sequence. */
export interface WantedGuess {
  readonly sequence: Sequence
  readonly count: number
}

/** A sequence whose draft is being made. */
interface Guessing extends WantedGuess {
  readonly slot: DraftSlot
  /** The tokens to compute next. */
  next: readonly TokenId[]
  readonly guessed: TokenId[]
}

/** The cost of catching up with a prompt is spread over at most this many of its remaining tokens. */
const spread = 64

/**
 * A smaller model with the same vocabulary that drafts tokens for the served model, all sequences in one pass per token.
 * It lags behind: tokens of a sequence that it has not seen, such as the prompt, are computed when a draft is wanted, in
 * steps of the usual size.
 *
 * Speculative decoding: Leviathan et al., "Fast Inference from Transformers via Speculative Decoding",
 * 2023.
 */
export class DraftModel {
  readonly #costs = new StepCostModel()
  readonly #slots: DraftSlots
  #isMeasured = false

  /** @param share - its size as a share of the served model's; the prior for the cost of its passes */
  constructor(
    private readonly backend: Backend,
    private readonly clock: Clock,
    private readonly served: StepCostModel,
    private readonly share: number,
  ) {
    this.#slots = new DraftSlots(backend)
  }

  get info(): ModelInfo {
    return this.backend.model
  }

  /** The most tokens of a sequence, its draft included. */
  get longest(): number {
    return this.backend.limits.contextSize
  }

  /** The predicted cost of drafting for these sequences. */
  costsFor(sequences: readonly Sequence[]): GuessCosts {
    const costs = this.#isMeasured ? this.#costs : this.served
    const scale = this.#isMeasured ? 1 : this.share
    const behind = sequences.map((sequence) => {
      const context = this.#slots.known(sequence)
      const tokens = sequence.tokens.length - 1 - context
      return tokens < 2 ? 0 : costs.prefillMs([{ tokens, context }])
    })
    return (indexes, count) => {
      let late = 0
      for (const index of indexes) {
        const { maxTokens, generatedTokens } = sequences[index]!
        late +=
          (behind[index]! * count) / Math.max(count, Math.min(spread, maxTokens - generatedTokens))
      }
      const contexts = indexes.map((index) => sequences[index]!.tokens.length)
      return scale * (count * costs.decodeMs(contexts) + late)
    }
  }

  /**
   * Drafts the next tokens of each sequence, in their order. While it is further behind than one step can compute, as
   * at the beginning of long prompts, it catches up by one step and drafts nothing.
   */
  async guess(wanted: readonly WantedGuess[]): Promise<readonly (readonly TokenId[])[]> {
    const { limits, model } = this.backend
    const all = wanted.map((one): Guessing | undefined => {
      const slot = this.#slots.take(one.sequence)
      if (slot === undefined) return undefined
      const next = one.sequence.tokens.slice(slot.length)
      const isKnown = next.every((token) => token < model.vocabularySize)
      return isKnown ? { ...one, slot, next, guessed: [] } : undefined
    })
    const able = all.filter((one) => one !== undefined)
    const behind = able.reduce((sum, { next }) => sum + next.length, 0)
    if (behind > limits.batchSize) await this.#catchUp(able)
    else await this.#draw(able)
    return all.map((one) => one?.guessed ?? [])
  }

  /** Computes as many of the missing tokens as fit into one step, without the last token of each sequence. */
  async #catchUp(all: readonly Guessing[]): Promise<void> {
    let left = this.backend.limits.batchSize
    const parts = all.map(({ slot, next }) => {
      const tokens = next.slice(0, Math.min(next.length - 1, left))
      left -= tokens.length
      return { slot, tokens }
    })
    const some = parts.filter(({ tokens }) => tokens.length > 0)
    const items = some.map(({ slot, tokens }) => {
      return { slot: slot.id, position: slot.length, tokens, outputs: [] }
    })
    await this.#step(items)
    for (const { slot, tokens } of some) slot.length += tokens.length
  }

  /** Samples the wanted tokens of each sequence, each with its own sampler. */
  async #draw(all: readonly Guessing[]): Promise<void> {
    const samplers = new Map<Guessing, Sampler>()
    try {
      for (const one of all) {
        const { tokens, promptTokens, request } = one.sequence
        const sampling = plainly(request.sampling)
        samplers.set(one, createSampler(this.backend, sampling, tokens, promptTokens))
      }
      for (let active = all; active.length > 0;) {
        const items = active.map((one) => itemOf(one, samplers.get(one)!))
        const outputs = checkOutputs(this.backend, items, await this.#step(items))
        active = active.filter((one, index) => goesOn(one, tokenOf(outputs[index]!)))
      }
    } finally {
      for (const sampler of samplers.values()) sampler.dispose()
    }
  }

  async #step(items: readonly BatchItem[]): Promise<StepResult> {
    const began = this.clock.now()
    const result = await this.backend.step(items)
    const parts = items.map(({ tokens, position: context }) => ({ tokens: tokens.length, context }))
    this.#costs.onWork(workOf(parts), this.clock.now() - began)
    this.#isMeasured = true
    return result
  }
}

function tokenOf(outputs: CheckedOutputs[number]): TokenId {
  if (CllmError.isInstance(outputs)) throw outputs
  return outputs[0]!.token
}

/** The batch item that yields the token after the sequence's last token, or after its last draft token. */
function itemOf({ slot, next: tokens }: Guessing, sampler: Sampler): BatchItem {
  const position = slot.length + slot.drafted.length
  return { slot: slot.id, position, tokens, outputs: [position + tokens.length - 1], sampler }
}

/** Records a drafted token; returns whether more are wanted. */
function goesOn(one: Guessing, token: TokenId): boolean {
  const { slot, guessed, count, next } = one
  if (guessed.length > 0) slot.drafted = [...slot.drafted, ...next]
  else slot.length += next.length
  guessed.push(token)
  one.next = [token]
  return guessed.length < count
}

/**
 * The sampling parameters without those that depend on earlier tokens or on plug-ins, as rejected drafts would have to be
 * undone there. With the same seed and position both models draw the same token where their logits agree.
 */
function plainly(params: SamplingParams): SamplingParams {
  const { constraint: _constraint, samplers: _samplers, ...sampling } = params
  return {
    ...sampling,
    logitBias: [],
    repetitionPenalty: 1,
    presencePenalty: 0,
    frequencyPenalty: 0,
    dryMultiplier: 0,
  }
}

/** A slot of the draft model. */
interface DraftSlot {
  readonly id: SlotId
  owner: Sequence
  /** The number of leading tokens of the owner that it holds. */
  length: number
  /** The drafts that it holds behind them. */
  drafted: readonly TokenId[]
  usedAt: number
}

/** Gives the draft model's slots to sequences: each keeps its own until another one needs it. */
class DraftSlots {
  readonly #slots: (DraftSlot | undefined)[]
  readonly #bySequence = new Map<Sequence, DraftSlot>()
  #uses = 0

  constructor(private readonly backend: Backend) {
    this.#slots = Array.from({ length: backend.limits.slots }, () => undefined)
  }

  /** Tokens of the sequence that its slot holds; 0 while it has none. */
  known(sequence: Sequence): number {
    const slot = this.#bySequence.get(sequence)
    return slot === undefined ? 0 : sharedWith(slot, sequence)
  }

  /** The slot of a sequence, cut to the sequence's own tokens; undefined: other sequences need all slots. */
  take(sequence: Sequence): DraftSlot | undefined {
    const slot = this.#bySequence.get(sequence) ?? this.#give(sequence)
    if (slot === undefined) return undefined
    const held = slot.length + slot.drafted.length
    // The last token is always computed again, since the token after it is wanted.
    const shared = Math.min(sharedWith(slot, sequence), sequence.tokens.length - 1)
    slot.length = held > shared ? truncate(this.backend, slot.id, shared) : held
    slot.drafted = []
    slot.usedAt = ++this.#uses
    return slot
  }

  #give(sequence: Sequence): DraftSlot | undefined {
    const best = this.#bestFor(sequence)
    const id = best?.id ?? this.#slots.indexOf(undefined)
    if (id === -1) return undefined
    if (best !== undefined) this.#bySequence.delete(best.owner)
    const length = best === undefined ? 0 : truncate(this.backend, id, usableBy(sequence, best))
    const slot: DraftSlot = { id, owner: sequence, length, drafted: [], usedAt: 0 }
    this.#slots[id] = slot
    this.#bySequence.set(sequence, slot)
    return slot
  }

  /**
   * The unneeded slot with the most tokens of the sequence; while there are unused slots, only one that has any.
   */
  #bestFor(sequence: Sequence): DraftSlot | undefined {
    let best: DraftSlot | undefined
    let most = this.#slots.includes(undefined) ? 1 : 0
    for (const slot of this.#slots) {
      if (slot === undefined || slot.owner.isRunning) continue
      const shared = usableBy(sequence, slot)
      const isOlder = shared === most && slot.usedAt < (best?.usedAt ?? Infinity)
      if (shared <= most && !isOlder) continue
      best = slot
      most = shared
    }
    return best
  }
}

/** How many leading tokens of the sequence the slot holds. */
function sharedWith({ owner, length, drafted }: DraftSlot, { tokens }: Sequence): number {
  let shared = owner.tokens === tokens ? length : sameTokens(tokens, owner.tokens, length)
  if (shared < length) return shared
  for (const draft of drafted) {
    if (tokens[shared] !== draft) break
    shared++
  }
  return shared
}

/** How many of them the sequence may use. */
function usableBy(sequence: Sequence, slot: DraftSlot): number {
  const [one, other] = [slot.owner.request, sequence.request]
  const mayShare = one.scope === other.scope && one.cache && other.cache
  return mayShare ? sharedWith(slot, sequence) : 0
}
