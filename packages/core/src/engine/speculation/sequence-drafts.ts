import type { Drafter, Proposal } from '../../contracts/model/proposer.js'
import type { TokenId } from '../../contracts/model/tokenizer.js'
import type { DraftView } from '../../contracts/scheduling/scheduler-policy.js'
import { kinds, type SequenceAcceptance } from './acceptance.js'

/** Most draft tokens of a sequence in a step: at first and after a wrong one, and after many right ones. */
const [fewDrafts, mostDrafts] = [15, 47]

interface Guess {
  readonly tokens: readonly TokenId[]
  readonly kind: number
  /** How many of the tokens have come true. */
  right: number
}

/** The guesses for one sequence, and how true they were. */
export class SequenceDrafts {
  /** Draft tokens that were verified. */
  draftTokens = 0
  /** Those that were drawn. */
  acceptedTokens = 0
  #guess: Guess | undefined
  /** The number of tokens that the guess is for. */
  #at = -1
  #most = fewDrafts
  /** The tokens so far, for its drafter. */
  #copied: TokenId[] | undefined

  /**
   * @param drafter - undefined where guesses take time: they are given when some are wanted
   * @param isUsable - whether a token can be a draft
   * @param longest - tokens that the sequence can have now, its drafts included; default: any number
   */
  constructor(
    private readonly drafter: Drafter | undefined,
    private readonly acceptance: SequenceAcceptance,
    private readonly isUsable: (token: TokenId) => boolean,
    private readonly longest: () => number = () => Infinity,
  ) {}

  /** What may come after `tokens`, up to `most` tokens; undefined: nothing is known. */
  view(tokens: readonly TokenId[], most: number): DraftView | undefined {
    if (this.drafter !== undefined && this.#at !== tokens.length)
      this.#propose(tokens, this.drafter)
    const isOpen = this.drafter === undefined && this.#at !== tokens.length
    const known = isOpen ? this.#most : (this.#guess?.tokens.length ?? 0)
    const count = Math.min(known, most, this.longest() - tokens.length)
    if (count <= 0) return undefined
    return { tokens: count, acceptance: this.acceptance.of(isOpen ? 0 : (this.#guess?.kind ?? 0)) }
  }

  /** The first `count` tokens of what {@link view} has. */
  take(count: number): readonly TokenId[] {
    return this.#guess?.tokens.slice(0, count) ?? []
  }

  /** Takes in a guess of what comes after `length` tokens, made because it was wanted; empty: none. */
  give(length: number, guessed: readonly TokenId[]): void {
    this.#at = length
    this.#guess = undefined
    this.#take({ tokens: guessed })
  }

  /** A token was drawn: shows how true the guess was. */
  onDrawn(token: TokenId): void {
    const guess = this.#guess
    if (guess === undefined) return
    const isRight = guess.tokens[guess.right] === token
    this.acceptance.add(guess.kind, isRight)
    if (isRight && ++guess.right < guess.tokens.length) return
    this.#most = isRight ? Math.min(mostDrafts, 2 * this.#most + 1) : fewDrafts
    this.#guess = undefined
  }

  /** A step verified `drafts` tokens, of which `accepted` were drawn. */
  onVerified(drafts: number, accepted: number): void {
    this.draftTokens += drafts
    this.acceptedTokens += accepted
  }

  #propose(tokens: readonly TokenId[], drafter: Drafter): void {
    this.#at = tokens.length
    this.#guess = undefined
    this.#take(drafter.propose(this.#copy(tokens), this.#most))
  }

  /** Adds what is new: a drafter that changes what it is given spoils its own guesses only. */
  #copy(tokens: readonly TokenId[]): readonly TokenId[] {
    const copied = (this.#copied ??= tokens.slice())
    copied.length = Math.min(copied.length, tokens.length)
    for (let index = copied.length; index < tokens.length; index++) copied.push(tokens[index]!)
    return copied
  }

  #take({ tokens, kind = 0 }: Proposal): void {
    const unusable = tokens.findIndex((token) => !this.isUsable(token))
    const end = unusable === -1 ? tokens.length : unusable
    if (end === 0) return
    const usable = tokens.slice(0, Math.min(end, this.#most))
    const known = Number.isInteger(kind) && kind >= 0 && kind < kinds
    this.#guess = { tokens: usable, kind: known ? kind : 0, right: 0 }
  }
}
