import { z } from 'zod'
import type { Drafter, Proposal } from '../../contracts/model/drawing.js'
import type { TokenId } from '../../contracts/model/tokenizer.js'
import type { DraftView } from '../../contracts/scheduling/scheduler-policy.js'

/** The number of kinds of drafts that are told apart. */
const kinds = 16
/** The highest acceptance that is ever assumed. */
const mostSure = 0.98

/** Recalled counts are weighed with this factor, as the texts may differ now. */
const recalledShare = 0.25

const counts = z.array(z.number().min(0).max(100)).length(kinds)
const tally = z.tuple([counts, counts])

/** Counts for each kind of draft how many recent tokens were right. */
class Tally {
  readonly #right = new Float64Array(kinds)
  readonly #all = new Float64Array(kinds)

  /** @param memory - the factor by which the counts of a kind decay with each new token */
  constructor(private readonly memory: number) {}

  add(kind: number, isRight: boolean): void {
    this.#right[kind] = this.memory * this.#right[kind]! + Number(isRight)
    this.#all[kind] = this.memory * this.#all[kind]! + 1
  }

  /** Lets all counts decay: without drafts, a bad estimate would never change. */
  fade(): void {
    for (let kind = 0; kind < kinds; kind++) {
      this.#right[kind]! *= 0.9
      this.#all[kind]! *= 0.9
    }
  }

  /** By kind: the number of right tokens, and of all; as JSON. */
  learned(): z.output<typeof tally> {
    return [[...this.#right], [...this.#all]]
  }

  /** @throws for a value that {@link learned} cannot have returned */
  recall(learned: unknown): void {
    const [right, all] = tally.parse(learned)
    for (const [kind, count] of all.entries()) {
      this.#all[kind] = recalledShare * count
      this.#right[kind] = recalledShare * Math.min(count, right[kind]!)
    }
  }

  /** The share of right tokens, with `prior` weighing as much as `weight` tokens. */
  share(kind: number, prior: number, weight: number): number {
    return (this.#right[kind]! + weight * prior) / (this.#all[kind]! + weight)
  }
}

/** The acceptance of one proposer's drafts over all sequences of an engine, by kind. */
export class EngineAcceptance extends Tally {
  /** @param prior - the acceptance before there were drafts */
  constructor(private readonly prior = 0.5) {
    super(0.98)
  }

  of(kind: number): number {
    return this.share(kind, this.prior, 2)
  }
}

/**
 * The prior of a sequence, as a number of tokens with average acceptance. Large enough that a phrase which is repeated by
 * chance, with a few accepted tokens in a row, is not taken for repetitive text.
 */
const average = 8
/** The factor by which a sequence's counts decay with each new token. */
const memory = 0.98

/**
 * The acceptance of the drafts for one sequence, by kind. It starts from the engine's other sequences; a sequence that
 * does better or worse than these is expected to do so with every kind, so that text that does not repeat is noticed after
 * a few tokens. Drafts are counted whether they were verified or only compared with the sampled token, so learning costs
 * nothing.
 */
export class SequenceAcceptance {
  readonly #tally = new Tally(0.95)
  #right = average
  #expected = average

  constructor(private readonly engine: EngineAcceptance) {}

  add(kind: number, isRight: boolean): void {
    this.#right = memory * this.#right + Number(isRight)
    this.#expected = memory * this.#expected + this.engine.of(kind)
    this.#tally.add(kind, isRight)
    this.engine.add(kind, isRight)
  }

  /** The probability that a token of such a draft is accepted if those before it are. */
  of(kind: number): number {
    const prior = Math.min(mostSure, (this.engine.of(kind) * this.#right) / this.#expected)
    return Math.min(mostSure, this.#tally.share(kind, prior, 4))
  }
}

/** The most draft tokens of a sequence in a step: at first and after a rejection, and after many accepted ones. */
const [fewDrafts, mostDrafts] = [15, 47]

/** A source of drafts that answers at once. */
export interface DraftSource {
  readonly drafter: Drafter
  readonly acceptance: SequenceAcceptance
}

/** A source of drafts that takes time: drafts are made when they are wanted. */
export interface LateSource {
  readonly acceptance: SequenceAcceptance
  /** The most tokens that the sequence may have now, its draft included. */
  longest(): number
}

interface Guess {
  readonly tokens: readonly TokenId[]
  readonly kind: number
  readonly acceptance: SequenceAcceptance
  /** How many of the tokens were sampled so far. */
  right: number
}

/** The drafts of one sequence, and their acceptance. */
export class SequenceDrafts {
  /** Draft tokens that were verified. */
  draftTokens = 0
  /** Draft tokens that were accepted. */
  acceptedTokens = 0
  /** The number of tokens behind which `#guess` and `#open` are. */
  #asked = -1
  /** The draft of the first source that has one. */
  #guess: Guess | undefined
  /** The slow source, while no other source has a draft. */
  #open: LateSource | undefined
  /** The most tokens of a draft. */
  #most = fewDrafts
  /** A copy of the tokens so far, for drafters. */
  #copied: TokenId[] | undefined

  /**
   * @param sources - the first source that has a draft is used
   * @param late - the source if none of them has one; default: none
   * @param isUsable - whether a token can be a draft token
   */
  constructor(
    private readonly sources: readonly DraftSource[],
    private readonly late: LateSource | undefined,
    private readonly isUsable: (token: TokenId) => boolean,
  ) {}

  /** Whether the draft that {@link view} last announced is still to be made. */
  get isOpen(): boolean {
    return this.#open !== undefined
  }

  /** The draft behind `tokens`, of at most `most` tokens; undefined: none. */
  view(tokens: readonly TokenId[], most: number): DraftView | undefined {
    if (this.#asked !== tokens.length) this.#propose(tokens)
    if (this.#open !== undefined) {
      const longest = Math.min(this.#most, this.#open.longest() - tokens.length)
      return viewOf(Math.min(longest, most), this.#open.acceptance, 0)
    }
    if (this.#guess === undefined) return undefined
    const { tokens: guessed, acceptance, kind } = this.#guess
    return viewOf(Math.min(guessed.length, most), acceptance, kind)
  }

  /** The first `count` tokens of the draft. */
  take(count: number): readonly TokenId[] {
    return this.#guess?.tokens.slice(0, count) ?? []
  }

  /** Sets the draft of the slow source behind `length` tokens; empty: none. */
  give(length: number, guessed: readonly TokenId[]): void {
    if (this.late === undefined) return
    this.#asked = length
    this.#open = undefined
    this.#guess = this.#checked({ tokens: guessed }, this.late.acceptance)
  }

  /** A token was sampled: compares it with the draft. */
  onDrawn(token: TokenId): void {
    const guess = this.#guess
    if (guess === undefined) return
    const isRight = guess.tokens[guess.right] === token
    guess.acceptance.add(guess.kind, isRight)
    if (isRight && ++guess.right < guess.tokens.length) return
    this.#most = isRight ? Math.min(mostDrafts, 2 * this.#most + 1) : fewDrafts
    this.#guess = undefined
  }

  /** A step verified `drafts` tokens, of which `accepted` were accepted. */
  onVerified(drafts: number, accepted: number): void {
    this.draftTokens += drafts
    this.acceptedTokens += accepted
  }

  #propose(tokens: readonly TokenId[]): void {
    this.#asked = tokens.length
    this.#guess = undefined
    const copy = this.sources.length === 0 ? tokens : this.#copy(tokens)
    for (const { drafter, acceptance } of this.sources) {
      this.#guess = this.#checked(drafter.propose(copy, this.#most), acceptance)
      if (this.#guess !== undefined) break
    }
    this.#open = this.#guess === undefined ? this.late : undefined
  }

  /** Brings the copy up to date. A copy, so that a drafter that modifies it only spoils its own drafts. */
  #copy(tokens: readonly TokenId[]): readonly TokenId[] {
    const copied = (this.#copied ??= tokens.slice())
    copied.length = Math.min(copied.length, tokens.length)
    for (let index = copied.length; index < tokens.length; index++) copied.push(tokens[index]!)
    return copied
  }

  #checked({ tokens, kind = 0 }: Proposal, acceptance: SequenceAcceptance): Guess | undefined {
    const unusable = tokens.findIndex((token) => !this.isUsable(token))
    const end = unusable === -1 ? tokens.length : unusable
    if (end === 0) return undefined
    const usable = tokens.slice(0, Math.min(end, this.#most))
    const known = Number.isInteger(kind) && kind >= 0 && kind < kinds
    return { tokens: usable, kind: known ? kind : 0, acceptance, right: 0 }
  }
}

function viewOf(
  tokens: number,
  acceptance: SequenceAcceptance,
  kind: number,
): DraftView | undefined {
  return tokens > 0 ? { tokens, acceptance: acceptance.of(kind) } : undefined
}
