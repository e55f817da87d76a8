import { z } from 'zod'
import type { Drafter, Proposal } from '../../contracts/model/drawing.js'
import type { TokenId } from '../../contracts/model/tokenizer.js'
import type { DraftView } from '../../contracts/scheduling/scheduler-policy.js'

/** Kinds of guesses that are told apart. */
const kinds = 16
/** The most that is ever believed of a guess. */
const mostSure = 0.98

/** What was learned before counts for this share of its guesses: other texts may come. */
const recalledShare = 0.25

const counts = z.array(z.number().min(0).max(100)).length(kinds)
const tally = z.tuple([counts, counts])

/** Of each kind of guess, how many tokens were right lately. */
class Tally {
  readonly #right = new Float64Array(kinds)
  readonly #all = new Float64Array(kinds)

  /** @param memory - the weight that earlier guesses of a kind keep with each new one */
  constructor(private readonly memory: number) {}

  add(kind: number, isRight: boolean): void {
    this.#right[kind] = this.memory * this.#right[kind]! + Number(isRight)
    this.#all[kind] = this.memory * this.#all[kind]! + 1
  }

  /** What was learned counts for less: where nothing is guessed, nothing would ever change it. */
  fade(): void {
    for (let kind = 0; kind < kinds; kind++) {
      this.#right[kind]! *= 0.9
      this.#all[kind]! *= 0.9
    }
  }

  /** Of each kind, how many guesses were right, and how many were made: as JSON. */
  learned(): z.output<typeof tally> {
    return [[...this.#right], [...this.#all]]
  }

  /** @throws where it is not what {@link learned} returned */
  recall(learned: unknown): void {
    const [right, all] = tally.parse(learned)
    for (const [kind, count] of all.entries()) {
      this.#all[kind] = recalledShare * count
      this.#right[kind] = recalledShare * Math.min(count, right[kind]!)
    }
  }

  /** The share that was right, `prior` counting as `weight` guesses. */
  share(kind: number, prior: number, weight: number): number {
    return (this.#right[kind]! + weight * prior) / (this.#all[kind]! + weight)
  }
}

/** How often one proposer's guesses for an engine's sequences were right, by their kind. */
export class EngineAcceptance extends Tally {
  /** @param prior - the share of guesses that is believed to be right before any were made */
  constructor(private readonly prior = 0.5) {
    super(0.98)
  }

  of(kind: number): number {
    return this.share(kind, this.prior, 2)
  }
}

/**
 * Guesses of an average sequence that each one begins with: so many that a phrase which comes back by chance, and is
 * right a few times in a row, does not make a text that repeats.
 */
const average = 8
/** The weight that a sequence's earlier guesses keep with each new one. */
const memory = 0.98

/**
 * How often the guesses for one sequence were right, by their kind. It starts from what the engine's
 * other sequences showed, and a sequence that does worse or better than these is expected to do so
 * with every kind: text that does not repeat is noticed after a few guesses. Guesses count whether
 * they were verified with others or only compared with the token that came, so learning costs nothing.
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

  /** The probability that a token of such a guess is right, if those before it are. */
  of(kind: number): number {
    const prior = Math.min(mostSure, (this.engine.of(kind) * this.#right) / this.#expected)
    return Math.min(mostSure, this.#tally.share(kind, prior, 4))
  }
}

/** Most draft tokens of a sequence in a step: at first and after a wrong one, and after many right ones. */
const [fewDrafts, mostDrafts] = [15, 47]

/** Where guesses come from at once. */
export interface DraftSource {
  readonly drafter: Drafter
  readonly acceptance: SequenceAcceptance
}

/** Where they take time: they are given when some are wanted. */
export interface LateSource {
  readonly acceptance: SequenceAcceptance
  /** Tokens that the sequence can have now, its drafts included. */
  longest(): number
}

interface Guess {
  readonly tokens: readonly TokenId[]
  readonly kind: number
  readonly acceptance: SequenceAcceptance
  /** How many of the tokens have come true. */
  right: number
}

/** The guesses for one sequence, and how true they were. */
export class SequenceDrafts {
  /** Draft tokens that were verified. */
  draftTokens = 0
  /** Those that were drawn. */
  acceptedTokens = 0
  /** For how many tokens it was last asked what follows. */
  #asked = -1
  /** What a source guesses of that … */
  #guess: Guess | undefined
  /** … or what can be told to guess it, as no source does. */
  #open: LateSource | undefined
  /** The most tokens of a guess. */
  #most = fewDrafts
  /** The tokens so far, for drafters. */
  #copied: TokenId[] | undefined

  /**
   * @param sources - the first that has a guess makes it
   * @param late - what makes it when none of them has one; default: nothing
   * @param isUsable - whether a token can be a draft
   */
  constructor(
    private readonly sources: readonly DraftSource[],
    private readonly late: LateSource | undefined,
    private readonly isUsable: (token: TokenId) => boolean,
  ) {}

  /** Whether what {@link view} had last takes time to be guessed. */
  get isOpen(): boolean {
    return this.#open !== undefined
  }

  /** What may come after `tokens`, up to `most` tokens; undefined: nothing is known. */
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

  /** The first `count` tokens of what {@link view} has. */
  take(count: number): readonly TokenId[] {
    return this.#guess?.tokens.slice(0, count) ?? []
  }

  /** Takes in a guess of what comes after `length` tokens, made because it was wanted; empty: none. */
  give(length: number, guessed: readonly TokenId[]): void {
    if (this.late === undefined) return
    this.#asked = length
    this.#open = undefined
    this.#guess = this.#checked({ tokens: guessed }, this.late.acceptance)
  }

  /** A token was drawn: shows how true the guess was. */
  onDrawn(token: TokenId): void {
    const guess = this.#guess
    if (guess === undefined) return
    const isRight = guess.tokens[guess.right] === token
    guess.acceptance.add(guess.kind, isRight)
    if (isRight && ++guess.right < guess.tokens.length) return
    this.#most = isRight ? Math.min(mostDrafts, 2 * this.#most + 1) : fewDrafts
    this.#guess = undefined
  }

  /** A step verified `drafts` tokens, of which `accepted` were drawn. */
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

  /** Adds what is new: a drafter that changes what it is given spoils its own guesses only. */
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
