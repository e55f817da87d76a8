import type { RedisBus } from '../bus/redis-bus.js'

/** How a result is counted. */
export type ResultKind = 'completed' | 'failed'

/** What is there of a number of results. */
export interface ResultCounts {
  readonly total: number
  readonly completed: number
  readonly failed: number
}

/** Whether a result was taken: the last one makes them `whole`; `closed`: nobody wants any. */
export type Added = 'open' | 'whole' | 'closed'

/** Bytes of results that are read at a time, more only where one result is longer. */
const bytesAtOnce = 2 ** 20

const openOnce = `if redis.call('exists', KEYS[1]) == 0 then
  redis.call('hset', KEYS[1], 'total', ARGV[1], 'completed', '0', 'failed', '0')
end`

const addOnce = `local total = redis.call('hget', KEYS[1], 'total')
if not total then return 'closed' end
if ARGV[1] ~= '' and redis.call('hsetnx', KEYS[1], ARGV[1], ARGV[3]) == 1 then
  redis.call('hincrby', KEYS[1], ARGV[2], 1)
end
local done = redis.call('hmget', KEYS[1], 'completed', 'failed')
if done[1] + done[2] >= tonumber(total) then return 'whole' end
return 'open'`

/**
 * Results of numbered pieces of work on the cluster's server, one for each number whoever computes it and
 * how often. All methods throw `cluster_unavailable`.
 */
export class SharedResults {
  readonly #prefix: string

  /** @param name what they are, such as `batch:results` */
  constructor(
    private readonly bus: RedisBus,
    name: string,
  ) {
    this.#prefix = `${bus.store.prefix}${name}:`
  }

  /** The key on the server, for conditions. */
  keyOf(id: string): string {
    return this.#prefix + id
  }

  /** Begins to take results, this many; done twice, it changes nothing. */
  async open(id: string, total: number): Promise<void> {
    await this.bus.command('EVAL', openOnce, '1', this.keyOf(id), String(total))
  }

  /** Adds a result, unless its number has one. */
  async add(id: string, number: number, kind: ResultKind, text: string): Promise<Added> {
    const words = [addOnce, '1', this.keyOf(id), String(number), kind, text]
    return (await this.bus.command('EVAL', ...words)) as Added
  }

  /** What adding would say now. */
  async state(id: string): Promise<Added> {
    const words = [addOnce, '1', this.keyOf(id), '', '', '']
    return (await this.bus.command('EVAL', ...words)) as Added
  }

  /** Whether a number has its result. */
  async has(id: string, number: number): Promise<boolean> {
    return (await this.bus.command('HEXISTS', this.keyOf(id), String(number))) === 1
  }

  /** How many there are; undefined before they are opened and after they are removed. */
  async counts(id: string): Promise<ResultCounts | undefined> {
    const words = ['HMGET', this.keyOf(id), 'total', 'completed', 'failed']
    const [total, completed, failed] = (await this.bus.command(...words)) as (string | null)[]
    if (total === null) return undefined
    return { total: Number(total), completed: Number(completed), failed: Number(failed) }
  }

  /**
   * The results of these numbers in their order, some at a time: nothing else comes through the connection
   * meanwhile. Undefined for one that has none.
   */
  async *read(
    id: string,
    numbers: readonly number[],
  ): AsyncGenerator<readonly (string | undefined)[], void, undefined> {
    const lengths = await Promise.all(
      numbers.map(async (number) => await this.bus.command('HSTRLEN', this.keyOf(id), `${number}`)),
    )
    let [from, bytes] = [0, 0]
    for (const [index, length] of (lengths as number[]).entries()) {
      if (index > from && bytes + length > bytesAtOnce) {
        yield await this.#texts(id, numbers.slice(from, index), bytes)
        ;[from, bytes] = [index, 0]
      }
      bytes += length
    }
    if (from < numbers.length) yield await this.#texts(id, numbers.slice(from), bytes)
  }

  /** Removes the results; none are taken any more. */
  async remove(id: string): Promise<void> {
    await this.bus.command('DEL', this.keyOf(id))
  }

  async #texts(
    id: string,
    numbers: readonly number[],
    bytes: number,
  ): Promise<(string | undefined)[]> {
    const texts = await this.bus.long(bytes, 'HMGET', this.keyOf(id), ...numbers.map(String))
    return (texts as (string | null)[]).map((text) => text ?? undefined)
  }
}
