import { randomBytes } from 'node:crypto'
import type { FoundState, Logger, SharedStates, StateFile, StateHead } from '@cllm/core'
import { secretOf, stateBytes, stateIn, stateName } from '@cllm/host'
import type { RedisBus } from '../bus/redis-bus.js'

/** Options of {@link RedisStates}. */
export interface RedisStatesOptions {
  /** The most bytes of all states. */
  readonly limitBytes: number
  /** Milliseconds after which an unused state is removed. */
  readonly maxAgeMs: number
  /** The key that encrypts them; states of another key are ignored. Default: they are not encrypted. */
  readonly key?: string
}

/**
 * The beginning of all scripts. `used` has the times of use by the server's clock, as the clocks of fronts differ;
 * `bytes` the size of each state, and of all under an empty name. Each state has a key of its own.
 */
const removing = `local used, bytes, prefix, name = KEYS[1], KEYS[2], ARGV[1], ARGV[2]
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function remove(one)
  redis.call('hincrby', bytes, '', 0 - (redis.call('hget', bytes, one) or 0))
  redis.call('hdel', bytes, one)
  redis.call('zrem', used, one)
  redis.call('del', prefix .. one)
end
`

/** Stores a state, unless another version was to be replaced, and removes states that are too old or too many. */
const writing = `${removing}
local data, version, instead, age, limit = unpack(ARGV, 3)
if instead ~= '' and redis.call('hget', prefix .. name, 'version') ~= instead then return 0 end
remove(name)
local old = redis.call('zrangebyscore', used, '-inf', now - age, 'limit', 0, 1000)
for _, one in ipairs(old) do remove(one) end
while (redis.call('hget', bytes, '') or 0) + #data > tonumber(limit) do
  local oldest = redis.call('zrange', used, 0, 0)[1]
  if not oldest then break end
  remove(oldest)
end
redis.call('hset', prefix .. name, 'data', data, 'version', version, 'used', now)
redis.call('pexpire', prefix .. name, age)
redis.call('zadd', used, now, name)
redis.call('hset', bytes, name, #data)
redis.call('hincrby', bytes, '', #data)
return 1`

const touching = `${removing}
if redis.call('exists', prefix .. name) == 1 then
  redis.call('hset', prefix .. name, 'used', now)
  redis.call('pexpire', prefix .. name, ARGV[3])
  redis.call('zadd', used, now, name)
end`

/** States on the cluster's server, as in a folder but for all fronts. Who can read the server can see their sizes. */
export class RedisStates implements SharedStates {
  readonly #prefix: string
  readonly #secret: Uint8Array | undefined

  /** @param name the kind of the states, such as `responses` */
  constructor(
    private readonly bus: RedisBus,
    name: string,
    private readonly options: RedisStatesOptions,
    private readonly logger: Logger,
  ) {
    this.#prefix = `${bus.store.prefix}${name}:`
    this.#secret = secretOf(options.key)
  }

  /** @throws `cluster_unavailable` */
  async find(head: StateHead): Promise<FoundState | undefined> {
    const name = stateName(head, this.#secret)
    const words = ['HMGET', this.#prefix + name, 'data', 'used', 'version']
    const [data, used, version] = await this.bus.bytes<(Buffer | null)[]>(...words)
    if (!data) return undefined
    try {
      const found = stateIn(name, data, this.#secret) as FoundState
      return { ...found, name, usedAt: Number(used), version: String(version) }
    } catch (error) {
      this.logger.warn({ err: error, name }, 'what the cluster has kept is ignored')
      return undefined
    }
  }

  async write(head: StateHead, data: Uint8Array, instead?: FoundState) {
    const name = stateName(head, this.#secret)
    const { limitBytes, maxAgeMs } = this.options
    const bytes = stateBytes(head, data, this.#secret)
    try {
      if (bytes.length > limitBytes) {
        throw new Error(`expected ${limitBytes} bytes at most, got ${bytes.length}`)
      }
      const version = randomBytes(8).toString('hex')
      const words = [bytes, version, instead?.version ?? '', String(maxAgeMs), String(limitBytes)]
      const isWritten = (await this.#run(writing, name, ...words)) === 1
      return isWritten ? { ...head, name, bytes: data.byteLength } : undefined
    } catch (error) {
      this.logger.warn({ err: error }, 'the cluster cannot keep a response')
      return undefined
    }
  }

  async touch({ name }: StateFile): Promise<void> {
    await this.#run(touching, name, String(this.options.maxAgeMs)).catch(() => {})
  }

  async remove({ name }: StateFile): Promise<void> {
    // First what a full server allows: it refuses a script whose first write may take memory.
    const script = `${removing}redis.call('del', prefix .. name) remove(name)`
    await this.#run(script, name).catch(() => {})
  }

  async #run(script: string, name: string, ...words: readonly (string | Buffer)[]) {
    const keys = [`${this.#prefix}used`, `${this.#prefix}bytes`]
    return await this.bus.command('EVAL', script, '2', ...keys, this.#prefix, name, ...words)
  }
}
