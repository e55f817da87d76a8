import { type TokenId, extendHash } from '@cllm/core'

/** What a slot of {@link FakeBackend} holds: its tokens, and as its "KV" the hash after each. */
export class FakeSlot {
  readonly tokens: TokenId[] = []
  /** Its KV cells, one per token; a copy has the same ones. */
  readonly cells: symbol[] = []
  /** Of the adapters that its tokens were computed with; 0: none. */
  salt = 0
  readonly #hashes: number[] = []

  constructor(private readonly emptyHash: number) {}

  /** The hash of the first `length` tokens. */
  hashAt(length: number): number {
    return this.#hashes[length - 1] ?? this.emptyHash
  }

  append(tokens: readonly TokenId[], cells: readonly symbol[] = []): void {
    for (const [index, token] of tokens.entries()) {
      this.cells.push(cells[index] ?? Symbol('cell'))
      this.#hashes.push(extendHash(this.hashAt(this.tokens.length), token))
      this.tokens.push(token)
    }
  }

  /** Takes tokens out; what the others were computed with stays in their hashes. */
  shift(keep: number, discard: number): void {
    this.tokens.splice(keep, discard)
    this.#hashes.splice(keep, discard)
    this.cells.splice(keep, discard)
  }

  truncate(length: number): void {
    if (length === 0) this.salt = 0
    this.tokens.length = length
    this.#hashes.length = length
    this.cells.length = length
  }
}
