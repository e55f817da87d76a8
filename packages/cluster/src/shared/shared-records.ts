import type { RedisBus } from '../bus/redis-bus.js'

/** Puts a record in place of another one, if that is still there. */
const replace = `if redis.call('hget', KEYS[1], ARGV[1]) ~= ARGV[2] then return 0 end
redis.call('hset', KEYS[1], ARGV[1], ARGV[3])
return 1`

/** Records as JSON on the cluster's server, by their ids. All methods throw `cluster_unavailable`. */
export class SharedRecords<T extends object> {
  readonly #key: string

  /** @param name what they are, such as `batch:files` */
  constructor(
    private readonly bus: RedisBus,
    name: string,
  ) {
    this.#key = `${bus.store.prefix}${name}`
  }

  /** The record, or undefined. */
  async get(id: string): Promise<T | undefined> {
    const text = await this.#text(id)
    return text === null ? undefined : (JSON.parse(text) as T)
  }

  /** All records, in no order. */
  async list(): Promise<T[]> {
    const texts = (await this.bus.command('HVALS', this.#key)) as string[]
    return texts.map((text) => JSON.parse(text) as T)
  }

  /** Stores a record, in place of what was. */
  async put(id: string, record: T): Promise<void> {
    await this.bus.command('HSET', this.#key, id, JSON.stringify(record))
  }

  /**
   * Changes a record; what others change meanwhile is not lost. Returns it as it is now: unchanged where
   * `change` returns undefined.
   */
  async update(id: string, change: (record: T) => T | undefined): Promise<T | undefined> {
    for (;;) {
      const before = await this.#text(id)
      if (before === null) return undefined
      const record = JSON.parse(before) as T
      const after = change(record)
      if (after === undefined) return record
      const words = [replace, '1', this.#key, id, before, JSON.stringify(after)]
      if ((await this.bus.command('EVAL', ...words)) === 1) return after
    }
  }

  /** Removes a record, if it is there. */
  async remove(id: string): Promise<void> {
    await this.bus.command('HDEL', this.#key, id)
  }

  async #text(id: string): Promise<string | null> {
    return (await this.bus.command('HGET', this.#key, id)) as string | null
  }
}
