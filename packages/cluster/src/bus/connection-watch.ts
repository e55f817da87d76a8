import type { Clock } from '@cllm/core'
import type { RedisClient } from './redis-client.js'

/** Milliseconds between two questions. */
const askMs = 500
/** Without an answer for so long, the server does not count as reachable. */
export const reachableMs = 3 * askMs
/** Without an answer for so long, it is silent. */
const silentMs = 5000

/** What a {@link ConnectionWatch} is made of. */
export interface ConnectionWatchParts {
  readonly client: RedisClient
  readonly clock: Clock
  /** Characters on their way, there or back: answers to what is asked behind them take longer. */
  readonly characters: () => number
  /** It has been silent for 5 s, and a millisecond more for each 1,000 characters. */
  readonly onSilent: () => void
}

/**
 * Asks a server for a sign of life on a connection. The kernel would take a quarter of an hour to notice that a
 * machine is gone which did not say so, as long as something that was sent to it is not acknowledged.
 */
export class ConnectionWatch {
  /** When the question was asked that is open. */
  #askedAt: number | undefined
  #answeredAt: number
  #cancel: () => void = () => {}

  constructor(private readonly parts: ConnectionWatchParts) {
    const { client, clock } = parts
    this.#answeredAt = clock.now()
    client.on('ready', () => void this.#ask())
    void this.#ask()
    this.#watch()
  }

  /** Whether it has answered within the last 1.5 s. */
  get isAnswering(): boolean {
    return this.parts.clock.now() - this.#answeredAt < reachableMs
  }

  close(): void {
    this.#cancel()
  }

  #watch(): void {
    const { clock } = this.parts
    const due = clock.now() + askMs
    this.#cancel = clock.at(due, () => {
      this.#look(clock.now() - due)
      this.#watch()
    })
  }

  #look(lateMs: number): void {
    const { client, clock, characters, onSilent } = this.parts
    // Until it is connected again, its socket has a time limit.
    if (!client.isReady) this.#askedAt = undefined
    else if (this.#askedAt === undefined) void this.#ask()
    // If this look is late, this process was busy or stopped, and an answer may still be unread.
    else if (lateMs < askMs && clock.now() - this.#askedAt >= silentMs + characters() / 1000) {
      this.#askedAt = undefined
      onSilent()
    }
  }

  async #ask(): Promise<void> {
    const { client, clock } = this.parts
    const at = clock.now()
    this.#askedAt = at
    try {
      await client.sendCommand(['PING'])
      this.#answeredAt = clock.now()
    } catch {
      // It is lost, or loads its data: it says nothing of others.
    }
    if (this.#askedAt === at) this.#askedAt = undefined
  }
}
