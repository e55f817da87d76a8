import { CllmError, type Clock, type Logger, pause } from '@cllm/core'
import type { RedisBus } from '../bus/redis-bus.js'

/** The interval in milliseconds at which the version is checked. */
const watchMs = 400
/** The most tries of a writer among concurrent ones. */
const mostTries = 20

/** A text with a version on the cluster's server, which all fronts share, such as the API keys. */
export class SharedText {
  readonly #key: string
  readonly #versionKey: string

  constructor(
    private readonly bus: RedisBus,
    name: string,
  ) {
    this.#key = `${bus.store.prefix}${name}`
    this.#versionKey = `${this.#key}:version`
  }

  /**
   * The current text; null if none was ever written.
   *
   * @throws `cluster_unavailable`
   */
  async read(): Promise<string | null> {
    return (await this.bus.command('GET', this.#key)) as string | null
  }

  /**
   * Changes the text; concurrent writers do so one after the other.
   *
   * @throws `cluster_unavailable`, and the errors of `change`
   */
  async update(change: (text: string | null) => string): Promise<void> {
    for (let tries = 0; tries < mostTries; tries++) {
      const before = await this.read()
      if (await this.#replace(before, change(before))) return
    }
    const message = 'The keys of the cluster are changed too often by others: try again'
    throw new CllmError('cluster_unavailable', message)
  }

  /**
   * Reads the text, and then calls back with each change until the returned function is called. While the server
   * does not answer, the last text stays; if the server comes back without the text or with an older one, the last
   * text is written again.
   *
   * @throws `cluster_unavailable`
   */
  async watch(clock: Clock, logger: Logger, onText: (text: string | null) => void) {
    const closing = new AbortController()
    let [known, own] = await this.#both()
    onText(own)
    const look = async (): Promise<void> => {
      if ((await this.bus.command('GET', this.#versionKey)) === known) return
      const [version, text] = await this.#both()
      if (own !== null && countOf(version) < countOf(known)) {
        // The server lagged behind the previous one, or is empty: revoked keys must not become valid again.
        logger.warn({}, 'the cluster has older keys than this front: they are written again')
        return void (await this.#replace(text, own, countOf(known) - 1))
      }
      known = version
      own = text
      if (!closing.signal.aborted) onText(text)
    }
    const watch = async (): Promise<void> => {
      while (!closing.signal.aborted) {
        const fail = (error: unknown) => logger.debug({ err: error }, 'the shared keys are unknown')
        await look().catch(fail)
        await pause(clock, watchMs, closing.signal)
      }
    }
    void watch()
    return () => closing.abort()
  }

  /**
   * Replaces `before` by `after`; false if the text was no longer `before`.
   *
   * @param least the least count of changes before this one: one less than that of a text that is written again, so
   *   that a front that knows a later version writes that again in turn
   */
  async #replace(before: string | null, after: string, least = 0): Promise<boolean> {
    const script = `if (redis.call('get', KEYS[1]) or '') ~= ARGV[1] then return 0 end
redis.call('set', KEYS[1], ARGV[2])
local last = tonumber(string.match(redis.call('get', KEYS[2]) or '', '^%d+') or '0')
local now = redis.call('time')
local count = string.format('%.0f', math.max(last, tonumber(ARGV[3])) + 1)
redis.call('set', KEYS[2], count .. '-' .. now[1] .. '.' .. now[2])
return 1`
    const words = [script, '2', this.#key, this.#versionKey, before ?? '', after, String(least)]
    return (await this.bus.command('EVAL', ...words)) === 1
  }

  /** The version and the text, read together, as a text with another one's version would be kept as that. */
  async #both(): Promise<[version: string | null, text: string | null]> {
    const both = await this.bus.command('MGET', this.#versionKey, this.#key)
    return both as [string | null, string | null]
  }
}

/** The count of changes in a version. The rest of a version tells the changes of two servers apart. */
const countOf = (version: string | null): number => Number.parseInt(version ?? '0', 10)
