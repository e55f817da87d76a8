import type { RedisBus } from '../bus/redis-bus.js'
import { randomBytes } from 'node:crypto'

/** Replaces a record unless it has changed. */
const replace = `if redis.call('hget', KEYS[1], ARGV[1]) ~= ARGV[2] then return 0 end
redis.call('hset', KEYS[1], ARGV[1], ARGV[3])
return 1`

/** Records as JSON on the cluster's server, by id. All methods throw `cluster_unavailable`. */
export class SharedRecords<T extends object> {
  readonly #key: string

  /**
   * @param name the kind of the records, such as `batch:files`
   * @param isWhole checks JSON from the server, which other versions may have written; default: it is not null
   */
  constructor(
    private readonly bus: RedisBus,
    name: string,
    private readonly isWhole: (record: T | null) => boolean = (record) => record !== null,
  ) {
    this.#key = `${bus.store.prefix}${name}`
  }

  /** The record, or undefined. */
  async get(id: string): Promise<T | undefined> {
    const text = await this.#text(id)
    return text === null ? undefined : this.#read(text)
  }

  /** All records that can be read, in any order; `onDamaged` gets an error for each damaged one. */
  async list(onDamaged: (error: Error) => void = () => {}): Promise<T[]> {
    const texts = (await this.bus.command('HVALS', this.#key)) as string[]
    return texts.flatMap((text) => {
      try {
        return [this.#read(text)]
      } catch (error) {
        onDamaged(error as Error)
        return []
      }
    })
  }

  /** Stores a record, in place of an earlier one. */
  async put(id: string, record: T): Promise<void> {
    await this.bus.command('HSET', this.#key, id, JSON.stringify(record))
  }

  /**
   * Changes a record without losing concurrent changes of others. Returns the record afterwards, which is unchanged if
   * `change` returns undefined.
   */
  async update(id: string, change: (record: T) => T | undefined): Promise<T | undefined> {
    for (;;) {
      const before = await this.#text(id)
      if (before === null) return undefined
      const record = this.#read(before)
      const after = change(record)
      if (after === undefined) return record
      const words = [replace, '1', this.#key, id, before, JSON.stringify(after)]
      if ((await this.bus.command('EVAL', ...words)) === 1) return after
    }
  }

  /** A record in the form in which {@link SharedBlobs.write} stores it together with bytes. */
  toWrite(id: string, record: T): RecordToWrite {
    return { key: this.#key, id, text: JSON.stringify(record) }
  }

  /** Removes a record, if it is there. */
  async remove(id: string): Promise<void> {
    await this.bus.command('HDEL', this.#key, id)
  }

  #read(text: string): T {
    const record = JSON.parse(text) as T | null
    if (this.isWhole(record)) return record!
    throw new Error(`what ${this.#key} has is no record`)
  }

  async #text(id: string): Promise<string | null> {
    return (await this.bus.command('HGET', this.#key, id)) as string | null
  }
}

/** A record that is stored together with bytes, from {@link SharedRecords.toWrite}. */
export interface RecordToWrite {
  /** The key of all records of its kind. */
  readonly key: string
  readonly id: string
  /** The record as JSON. */
  readonly text: string
}

/** What else happens at the moment when bytes are stored; at most one of the two. */
export interface WriteOptions {
  /** A record to store together with the bytes. */
  readonly record?: RecordToWrite
  /** A key that must exist at that moment; otherwise nothing is stored. */
  readonly ifExists?: string
}

/** The size of the pieces in which bytes are sent and fetched. */
const pieceBytes = 256 * 1024
/** Seconds after which unfinished bytes expire. */
const unfinishedSeconds = 3600

/** Moves finished bytes to their key, if no failover has lost any: with a record, or only if another key exists. */
const finish = `local bytes = redis.call('strlen', KEYS[1])
if bytes ~= tonumber(ARGV[1]) then
  redis.call('del', KEYS[1])
  return redis.error_reply('LOST expected ' .. ARGV[1] .. ' bytes to be there, instead got ' .. bytes)
end
if ARGV[2] then
  redis.call('hset', KEYS[3], ARGV[2], ARGV[3])
elseif #KEYS == 3 and redis.call('exists', KEYS[3]) == 0 then
  redis.call('del', KEYS[1])
  return 0
end
redis.call('rename', KEYS[1], KEYS[2])
redis.call('persist', KEYS[2])
return 1`

/** What the cluster's server has of a kind under a key for each id. */
export abstract class SharedKeys {
  readonly #prefix: string

  /** @param name the kind, such as `batch:content` */
  constructor(
    protected readonly bus: RedisBus,
    name: string,
  ) {
    this.#prefix = `${bus.store.prefix}${name}:`
  }

  /** The key of an id on the server, such as for {@link WriteOptions.ifExists}. */
  keyOf(id: string): string {
    return this.#prefix + id
  }

  /** Removes the bytes or the results of an id, if there are any; results are not taken any more. */
  async remove(id: string): Promise<void> {
    await this.bus.command('DEL', this.keyOf(id))
  }
}

/** Bytes on the cluster's server, by id; at most 512 MB each. All methods throw `cluster_unavailable`. */
export class SharedBlobs extends SharedKeys {
  /**
   * Stores bytes, all or none.
   *
   * @returns false if the key of `ifExists` does not exist
   */
  async write(
    id: string,
    pieces: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
    { record, ifExists }: WriteOptions = {},
  ): Promise<boolean> {
    const key = this.keyOf(id)
    const unfinished = `${key}.${randomBytes(8).toString('hex')}`
    await this.bus.command('SET', unfinished, '', 'EX', String(unfinishedSeconds))
    let length = 0
    for await (const bytes of pieces) {
      length += bytes.length
      for (let at = 0; at < bytes.length; at += pieceBytes) {
        const piece = Buffer.from(bytes.subarray(at, at + pieceBytes))
        await this.bus.command('APPEND', unfinished, piece)
      }
    }
    const other = record?.key ?? ifExists
    const keys = other === undefined ? [unfinished, key] : [unfinished, key, other]
    const written = record === undefined ? [] : [record.id, record.text]
    const words = [finish, String(keys.length), ...keys, String(length), ...written]
    return (await this.bus.command('EVAL', ...words)) === 1
  }

  /** The bytes from `from` up to but excluding `to`. */
  async slice(id: string, from: number, to: number): Promise<Buffer> {
    return await this.bus.bytes('GETRANGE', this.keyOf(id), String(from), String(to - 1))
  }

  /** All bytes, in pieces. */
  async *read(id: string): AsyncGenerator<Buffer, undefined, undefined> {
    for (let at = 0; ; at += pieceBytes) {
      const piece = await this.slice(id, at, at + pieceBytes)
      if (piece.length > 0) yield piece
      if (piece.length < pieceBytes) return
    }
  }

  /** The number of bytes. */
  async size(id: string): Promise<number> {
    return Number(await this.bus.command('STRLEN', this.keyOf(id)))
  }
}

/** The kinds by which results are counted. */
export type ResultKind = 'completed' | 'failed'

/** The results after one was added: `whole` after the last one; `closed`: no more are taken. */
export type Added = 'open' | 'whole' | 'closed'

/** The most bytes of results that are read at once, unless a single result is longer. */
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
 * Results of numbered pieces of work on the cluster's server. Each number keeps its first result, even if several
 * processes compute it. All methods throw `cluster_unavailable`.
 */
export class SharedResults extends SharedKeys {
  /** Begins to take `total` results; a second call has no effect. */
  async open(id: string, total: number): Promise<void> {
    await this.bus.command('EVAL', openOnce, '1', this.keyOf(id), String(total))
  }

  /** Adds a result, unless its number already has one. */
  async add(id: string, number: number, kind: ResultKind, text: string): Promise<Added> {
    const words = [addOnce, '1', this.keyOf(id), String(number), kind, text]
    return (await this.bus.command('EVAL', ...words)) as Added
  }

  /** The result that {@link add} would have now. */
  async state(id: string): Promise<Added> {
    return (await this.bus.command('EVAL', addOnce, '1', this.keyOf(id), '', '', '')) as Added
  }

  /** Whether a number has its result. */
  async has(id: string, number: number): Promise<boolean> {
    return (await this.bus.command('HEXISTS', this.keyOf(id), String(number))) === 1
  }

  /** The number of expected results, and of those that have arrived; undefined before `open` and after `remove`. */
  async counts(id: string) {
    const words = ['HMGET', this.keyOf(id), 'total', 'completed', 'failed']
    const [total, completed, failed] = (await this.bus.command(...words)) as (string | null)[]
    if (total === null) return undefined
    return { total: Number(total), completed: Number(completed), failed: Number(failed) }
  }

  /**
   * The results of these numbers in order, undefined for a number without one. They are read in parts, as nothing else
   * comes through the connection while one is read.
   */
  async *read(id: string, numbers: readonly number[]) {
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

  async #texts(id: string, numbers: readonly number[], bytes: number) {
    const texts = await this.bus.long(bytes, 'HMGET', this.keyOf(id), ...numbers.map(String))
    return (texts as (string | null)[]).map((text) => text ?? undefined)
  }
}
