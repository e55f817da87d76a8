import { CllmError, type Clock, type Logger, pause } from '@cllm/core'
import type { RedisBus } from '../bus/redis-bus.js'

/** Milliseconds between two looks at the version. */
const watchMs = 400
/** Writers that come at the same time try again so often. */
const mostTries = 20

/** A text on the cluster's server that all fronts share, such as its API keys, with a version. */
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
   * The text now; null where none was ever written.
   *
   * @throws `cluster_unavailable`
   */
  async read(): Promise<string | null> {
    return (await this.bus.command('GET', this.#key)) as string | null
  }

  /**
   * Changes the text; writers that come at the same time do so one after the other.
   *
   * @throws `cluster_unavailable`, and what `change` throws
   */
  async update(change: (text: string | null) => string): Promise<void> {
    for (let tries = 0; tries < mostTries; tries++) {
      const before = await this.read()
      const after = change(before)
      if (await this.#replace(before, after)) return
    }
    const message = 'The keys of the cluster are changed too often by others: try again'
    throw new CllmError('cluster_unavailable', message)
  }

  /**
   * Reads the text, and then calls back with each change until it is closed. While the server does not
   * answer, and when it comes back without the text or with an older one, the last one stays, and is then
   * written again.
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
        // A server that lagged behind the one before, or is empty: what was revoked since must not be valid again.
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
   * Whether it still was `before` and is `after` now.
   *
   * @param least how often it was changed at least: one less than a version that is written again, so that who
   *   knows a later one does the same with that
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

  /** The version and the text, of one time: one that was taken for another's would be kept as that. */
  async #both(): Promise<[version: string | null, text: string | null]> {
    const both = await this.bus.command('MGET', this.#versionKey, this.#key)
    return both as [string | null, string | null]
  }
}

/** How often a text was changed, by its version. What follows tells two servers' changes apart. */
const countOf = (version: string | null): number => Number.parseInt(version ?? '0', 10)
