/** Envelopes sent at once. */
const batchSize = 256

/** An envelope on its way. */
export interface OutgoingEnvelope {
  readonly mailbox: string
  readonly text: string
}

/**
 * Sends envelopes in their order, a batch at a time. A batch that fails is sent again as a whole, so that
 * none overtakes another; the receiver drops those that came twice.
 */
export class Outbox {
  readonly #envelopes: OutgoingEnvelope[] = []
  #characters = 0
  #isSending = false
  #isClosed = false

  /**
   * @param send resolves when all of a batch is in, rejects when it is to be sent again
   * @param pause resolves when a failed batch is to be tried again
   * @param limit characters that may wait; beyond them all are dropped, and receivers miss them
   */
  constructor(
    private readonly send: (batch: readonly OutgoingEnvelope[]) => Promise<void>,
    private readonly pause: () => Promise<void>,
    private readonly limit: number,
  ) {}

  add(envelope: OutgoingEnvelope): void {
    if (this.#isClosed) return
    if (this.#characters > this.limit) {
      this.#envelopes.length = 0
      this.#characters = 0
    }
    this.#envelopes.push(envelope)
    this.#characters += envelope.text.length
    if (!this.#isSending) void this.#pump()
  }

  close(): void {
    this.#isClosed = true
  }

  async #pump(): Promise<void> {
    this.#isSending = true
    // Envelopes that come in the same turn are sent together.
    await Promise.resolve()
    while (this.#envelopes.length > 0 && !this.#isClosed) {
      const batch = this.#envelopes.splice(0, batchSize)
      for (const { text } of batch) this.#characters -= text.length
      await this.#deliver(batch)
    }
    this.#isSending = false
  }

  async #deliver(batch: readonly OutgoingEnvelope[]): Promise<void> {
    while (!this.#isClosed) {
      try {
        return await this.send(batch)
      } catch {
        await this.pause()
      }
    }
  }
}
