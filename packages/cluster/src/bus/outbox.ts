/** Letters sent at once. */
const batchSize = 256

/** A letter on its way. */
export interface Letter {
  readonly mailbox: string
  readonly text: string
}

/**
 * Sends letters in their order, a batch at a time. A batch that fails is sent again as a whole, so that
 * none overtakes another; the receiver drops those that came twice.
 */
export class Outbox {
  readonly #letters: Letter[] = []
  #characters = 0
  #isSending = false
  #isClosed = false

  /**
   * @param send resolves when all of a batch is in, rejects when it is to be sent again
   * @param pause resolves when a failed batch is to be tried again
   * @param limit characters that may wait; beyond them all are dropped, and receivers miss them
   */
  constructor(
    private readonly send: (batch: readonly Letter[]) => Promise<void>,
    private readonly pause: () => Promise<void>,
    private readonly limit: number,
  ) {}

  post(letter: Letter): void {
    if (this.#isClosed) return
    if (this.#characters > this.limit) {
      this.#letters.length = 0
      this.#characters = 0
    }
    this.#letters.push(letter)
    this.#characters += letter.text.length
    if (!this.#isSending) void this.#pump()
  }

  close(): void {
    this.#isClosed = true
  }

  async #pump(): Promise<void> {
    this.#isSending = true
    // Letters that are posted in the same turn are sent together.
    await Promise.resolve()
    while (this.#letters.length > 0 && !this.#isClosed) {
      const batch = this.#letters.splice(0, batchSize)
      for (const { text } of batch) this.#characters -= text.length
      await this.#deliver(batch)
    }
    this.#isSending = false
  }

  async #deliver(batch: readonly Letter[]): Promise<void> {
    while (!this.#isClosed) {
      try {
        return await this.send(batch)
      } catch {
        await this.pause()
      }
    }
  }
}
