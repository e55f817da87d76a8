import type { RedisClient } from './redis-client.js'

/**
 * Who lives, as a server sees it: a process listens to a channel of its own, on which nothing is ever said,
 * and its connection ends with it, whatever kills it.
 */
export class RedisPresence {
  /** Whether the connection was another one when it was asked last. */
  #isOther = true

  constructor(
    private readonly prefix: string,
    private readonly asking: RedisClient,
    private readonly connect: () => Promise<RedisClient>,
  ) {
    asking.on('ready', () => (this.#isOther = true))
  }

  async appear(id: string): Promise<void> {
    const own = await this.connect()
    await own.subscribe(this.#channelOf(id), () => {})
  }

  async present(ids: readonly string[]): Promise<ReadonlySet<string> | undefined> {
    this.#isOther = false
    const channels = ids.map((id) => this.#channelOf(id))
    const answer = await this.asking.sendCommand(['PUBSUB', 'NUMSUB', ...channels])
    // On another server nobody has appeared yet.
    if (this.#isOther) return undefined
    const counts = answer as unknown as (string | number)[]
    return new Set(ids.filter((_, index) => Number(counts[2 * index + 1]) > 0))
  }

  #channelOf(id: string): string {
    return `${this.prefix}alive:${id}`
  }
}
