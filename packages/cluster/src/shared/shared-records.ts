import type { RedisBus } from '../bus/redis-bus.js'
import { randomBytes } from 'node:crypto'

/** Puts a record in place of another one, if that is still there. */
const replace = `if redis.call('hget', KEYS[1], ARGV[1]) ~= ARGV[2] then return 0 end
redis.call('hset', KEYS[1], ARGV[1], ARGV[3])
return 1`

/** Records as JSON on the cluster's server, by their ids. All methods throw `cluster_unavailable`. */
export class SharedRecords<T extends object> {
  readonly #key: string

  /**
   * @param name what they are, such as `batch:files`
   * @param isWhole whether JSON of the server, which other versions write, too, is a record; default: unless it is null
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

  /** All records that can be read, in no order; each that is damaged is told. */
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
      const record = this.#read(before)
      const after = change(record)
      if (after === undefined) return record
      const words = [replace, '1', this.#key, id, before, JSON.stringify(after)]
      if ((await this.bus.command('EVAL', ...words)) === 1) return after
    }
  }

  /** A record as {@link SharedBlobs.write} stores it together with bytes. */
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
  /** Of all records of its kind. */
  readonly key: string
  readonly id: string
  /** The record as JSON. */
  readonly text: string
}

/** What else happens at the moment when bytes are stored; one of both at most. */
export interface WriteOptions {
  /** There from then on. */
  readonly record?: RecordToWrite
  /** A key that must exist then: otherwise nothing is stored. */
  readonly ifExists?: string
}

/** Bytes that are sent or fetched at a time. */
const pieceBytes = 256 * 1024
/** Seconds after which what was begun and never finished goes. */
const unfinishedSeconds = 3600

/** Puts finished bytes in their place, if a failover has lost none: with a record, or only where a key is still there. */
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

/** Bytes on the cluster's server, by their ids; at most 512 MB each. All methods throw `cluster_unavailable`. */
export class SharedBlobs {
  readonly #prefix: string

  /** @param name what they are, such as `batch:content` */
  constructor(
    private readonly bus: RedisBus,
    name: string,
  ) {
    this.#prefix = `${bus.store.prefix}${name}:`
  }

  /**
   * Stores bytes: whole, or not at all.
   *
   * @returns false where the key of `ifExists` is not there
   */
  async write(
    id: string,
    pieces: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
    { record, ifExists }: WriteOptions = {},
  ): Promise<boolean> {
    const key = this.#prefix + id
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

  /** Bytes from a place to another one, that one left out. */
  async slice(id: string, from: number, to: number): Promise<Buffer> {
    const words = ['GETRANGE', this.#prefix + id, String(from), String(to - 1)]
    return await this.bus.bytes(...words)
  }

  /** All of them, a piece at a time. */
  async *read(id: string): AsyncGenerator<Buffer, undefined, undefined> {
    for (let at = 0; ; at += pieceBytes) {
      const piece = await this.slice(id, at, at + pieceBytes)
      if (piece.length > 0) yield piece
      if (piece.length < pieceBytes) return
    }
  }

  /** Their number. */
  async size(id: string): Promise<number> {
    return Number(await this.bus.command('STRLEN', this.#prefix + id))
  }

  /** Removes them, if they are there. */
  async remove(id: string): Promise<void> {
    await this.bus.command('DEL', this.#prefix + id)
  }
}

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

  /** Removes the results; none are taken any more. */
  async remove(id: string): Promise<void> {
    await this.bus.command('DEL', this.keyOf(id))
  }

  async #texts(id: string, numbers: readonly number[], bytes: number) {
    const texts = await this.bus.long(bytes, 'HMGET', this.keyOf(id), ...numbers.map(String))
    return (texts as (string | null)[]).map((text) => text ?? undefined)
  }
}
