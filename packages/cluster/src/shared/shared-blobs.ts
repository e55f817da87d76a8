import { randomBytes } from 'node:crypto'
import type { RedisBus } from '../bus/redis-bus.js'

/** Bytes that are sent or fetched at a time. */
const pieceBytes = 256 * 1024
/** Seconds after which what was begun and never finished goes. */
const unfinishedSeconds = 3600

/** Puts finished bytes in their place, if a failover has lost none, where something else is still there. */
const finish = `local bytes = redis.call('strlen', KEYS[1])
if bytes ~= tonumber(ARGV[1]) then
  redis.call('del', KEYS[1])
  return redis.error_reply('LOST expected ' .. ARGV[1] .. ' bytes to be there, instead got ' .. bytes)
end
if #KEYS == 3 and redis.call('exists', KEYS[3]) == 0 then
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
   * @param condition a key that must exist at the end; returns false where it does not
   */
  async write(
    id: string,
    pieces: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
    condition?: string,
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
    const keys = [unfinished, key, ...(condition === undefined ? [] : [condition])]
    const words = [finish, String(keys.length), ...keys, String(length)]
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
