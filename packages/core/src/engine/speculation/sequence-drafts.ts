import type { Drafter } from '../../contracts/model/proposer.js'
import type { TokenId } from '../../contracts/model/tokenizer.js'
import type { DraftView } from '../../contracts/scheduling/scheduler-policy.js'
import { kinds, type SequenceAcceptance } from './acceptance.js'

/** Draft tokens that a step verifies for one sequence at most. */
const mostDrafts = 16

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

  /** @param isUsable - whether a token can be a draft */
  constructor(
    private readonly drafter: Drafter,
    private readonly acceptance: SequenceAcceptance,
    private readonly isUsable: (token: TokenId) => boolean,
  ) {}

  /** What may come after `tokens`, up to `most` tokens; undefined: nothing is known. */
  view(tokens: readonly TokenId[], most: number): DraftView | undefined {
    if (this.#at !== tokens.length) this.#propose(tokens)
    const guess = this.#guess
    const count = Math.min(guess?.tokens.length ?? 0, most)
    if (guess === undefined || count <= 0) return undefined
    return { tokens: count, acceptance: this.acceptance.of(guess.kind) }
  }

  /** The first `count` tokens of what {@link view} has. */
  take(count: number): readonly TokenId[] {
    return this.#guess?.tokens.slice(0, count) ?? []
  }

  /** A token was drawn: shows how true the guess was. */
  onDrawn(token: TokenId): void {
    const guess = this.#guess
    if (guess === undefined) return
    const isRight = guess.tokens[guess.right] === token
    this.acceptance.add(guess.kind, isRight)
    guess.right++
    if (!isRight || guess.right === guess.tokens.length) this.#guess = undefined
  }

  /** A step verified `drafts` tokens, of which `accepted` were drawn. */
  onVerified(drafts: number, accepted: number): void {
    this.draftTokens += drafts
    this.acceptedTokens += accepted
  }

  #propose(tokens: readonly TokenId[]): void {
    this.#at = tokens.length
    this.#guess = undefined
    const { tokens: guessed, kind = 0 } = this.drafter.propose(tokens, mostDrafts)
    const unusable = guessed.findIndex((token) => !this.isUsable(token))
    const end = unusable === -1 ? guessed.length : unusable
    if (end === 0) return
    const usable = guessed.slice(0, Math.min(end, mostDrafts))
    const known = Number.isInteger(kind) && kind >= 0 && kind < kinds
    this.#guess = { tokens: usable, kind: known ? kind : 0, right: 0 }
  }
}
