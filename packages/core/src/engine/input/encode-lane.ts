import { inject, injectable } from 'tsyringe'
import type { Clock } from '../../contracts/services.js'
import type { EncodeStatistics } from '../../contracts/engine/engine-statistics.js'
import type { Backend } from '../../contracts/model/backend.js'
import type { EncodedMedia, EncodeJob } from '../../contracts/model/model-info.js'
import type { MediaType, PromptMedia } from '../../contracts/model/tokenizer.js'
import type { ArrivalView } from '../../contracts/scheduling/scheduler-policy.js'
import { CllmError } from '../../errors/cllm-error.js'
import * as tokens from '../../tokens.js'
import { LinearFit } from '../costs/linear-fit.js'
import { ENGINE_COSTS, type EngineCosts } from '../costs/engine-costs.js'
import { ENGINE_OPTIONS, type EngineOptions } from '../engine-options.js'
import { PolicyRunner } from '../loop/policy-runner.js'
import { checkWait } from './admission.js'

/** The owner of files to encode. */
export interface EncodeOwner extends ArrivalView {
  /** The request's id; empty for other calls. */
  readonly id: string
  /** When its files arrived. */
  readonly since: number
  /** Encodings are shared within the same scope; undefined: not at all. */
  readonly scope: string | undefined
  /** Aborts, with a {@link CllmError}, when the encodings are no longer needed. */
  readonly signal: AbortSignal
  /** Whether it may be refused for a long queue; false for requests continued from another engine. */
  readonly isNew: boolean
  /** Milliseconds that its own files have taken to encode. */
  encodeMs: number
  /** Whether its request is in the engine's queue already. */
  isQueued: boolean
}

interface Waiting {
  readonly job: EncodeJob
  readonly file: PromptMedia
  readonly owner: EncodeOwner
  /** The factors from which its cost is predicted. */
  readonly factors: readonly number[]
  readonly cameAt: number
  /** The number of later files that were encoded first. */
  overtaken: number
  readonly onCounted: (counted: EncodedMedia) => void
  readonly resolve: (encoded: EncodedMedia) => void
  readonly reject: (error: unknown) => void
}

interface Running extends Waiting {
  readonly startedAt: number
  /** The predicted time in milliseconds. */
  readonly ms: number
  /** Until when it may run even if nobody waits for it. */
  readonly keptUntil: number
  readonly stop: AbortController
}

/** After being overtaken this often, the first file in the queue is next, whatever the policy prefers. */
const mostOvertaken = 16

/** How long an encoding that nobody waits for may run: this many times its prediction, but at least `leastMs`. */
const unwanted = { times: 4, leastMs: 10_000 }

/** When an encoding counts as hung: after this many times its prediction, between `leastMs` and `mostMs`. */
const hung = { times: 10, leastMs: 120_000, mostMs: 600_000 }

/** The prior: milliseconds per file and per unit of size, of images and then of sounds. */
const guesses = [50, 500, 50, 50]
const kinds = ['image', 'image', 'audio', 'audio']

/**
 * The queue of files to encode, one at a time and beside the steps: the policy chooses the next file, and the cost of
 * encoding is learned.
 */
@injectable()
export class EncodeLane {
  /** The queue, in the order of arrival. */
  readonly #waiting = new Set<Waiting>()
  readonly #owners = new Set<EncodeOwner>()
  #running: Running | undefined
  readonly #costs = new LinearFit({ prior: guesses, kinds, memory: 0.9, outlier: 3 })
  /** The least time before a file counts as hung: longer before the first of its type, and after a hung one. */
  readonly #patienceMs: Record<MediaType, number> = { image: hung.mostMs, audio: hung.mostMs }
  readonly #counts = { encoded: 0, failed: 0, found: 0, encodeMs: 0, queueMs: 0 }

  constructor(
    @inject(tokens.BACKEND) private readonly backend: Backend,
    @inject(tokens.CLOCK) private readonly clock: Clock,
    @inject(ENGINE_OPTIONS) private readonly options: EngineOptions,
    @inject(PolicyRunner) private readonly policy: PolicyRunner,
    @inject(ENGINE_COSTS) private readonly engineCosts: EngineCosts,
  ) {}

  /** Counts and the present queue; undefined where the model takes no images and sounds. */
  statistics(): EncodeStatistics | undefined {
    if (this.backend.media === undefined) return undefined
    const waiting = this.#waiting.size + Number(this.#running !== undefined)
    return { waiting, waitMs: this.waitMs(), ...this.#counts }
  }

  /** The requests outside the queue whose files wait or are being encoded, in the order of arrival. */
  requests(): EncodeOwner[] {
    return [...this.#owners].filter(({ id, isQueued }) => id !== '' && !isQueued)
  }

  /** Milliseconds that an owner's files were being encoded so far, and that they waited for files of others. */
  waited(owner: EncodeOwner): Readonly<Record<'encode' | 'encoder', number>> {
    const now = this.clock.now()
    const { startedAt = now } = this.#running?.owner === owner ? this.#running : {}
    const encode = owner.encodeMs + now - startedAt
    return { encode, encoder: now - owner.since - encode }
  }

  /** Predicted milliseconds until the present file is encoded. */
  leftMs(): number {
    const { startedAt = 0, ms = 0 } = this.#running ?? {}
    return Math.max(0, startedAt + ms - this.clock.now())
  }

  /** Predicted milliseconds until all files in the queue are encoded. */
  waitMs(): number {
    let left = this.leftMs()
    const once = new Map([...this.#waiting].map(({ job, factors }) => [job.key, factors]))
    for (const [key, factors] of once)
      if (key !== this.#running?.job.key) left += this.#costs.predict(factors)
    return left
  }

  /**
   * Encodes the files of a request in their turn, or finds them in the cache. Undefined for an unreadable file that has
   * a text in its place.
   * @param onCounted - called when the tokens of all files are known; vectors that are still being computed are empty
   * @throws CllmError the errors of {@link MediaEncoder}, `wait_too_long`, and the reason of the owner's signal
   */
  async encode(
    files: readonly PromptMedia[],
    owner: EncodeOwner,
    onCounted: (counted: (EncodedMedia | undefined)[]) => void,
  ): Promise<(EncodedMedia | undefined)[]> {
    const prepared = await Promise.all(
      files.map(async (file) => {
        try {
          return await this.backend.media!.prepare(file, owner.scope)
        } catch (error) {
          return unread(file, inField(file, error))
        }
      }),
    )
    owner.signal.throwIfAborted()
    const jobs = prepared.filter(isJob)
    if (jobs.length > 0 && owner.isNew)
      checkWait(this.waitMs(), this.options.maxQueueWaitMs, 'The encoding of its files')
    this.#counts.found += prepared.filter((one) => one !== undefined && !isJob(one)).length
    const known = prepared.map((one) => (isJob(one) ? undefined : one))
    const uncounted = new Set(jobs)
    const encoding = prepared.map(async (job, index) => {
      if (!isJob(job)) return
      const file = files[index]!
      const learn = (media: EncodedMedia | undefined): void => {
        known[index] = media
        if (uncounted.delete(job) && uncounted.size === 0) onCounted(known)
      }
      const joined = this.#join({ job, file, owner, onCounted: learn })
      learn(await joined.catch((error: unknown) => unread(file, error)))
    })
    let leave = (): void => {}
    const gone = new Promise<never>((_, reject) => {
      leave = () => {
        this.#take((one) => one.owner === owner)
        this.#stopUnwanted()
        reject(owner.signal.reason as CllmError)
      }
    })
    owner.signal.addEventListener('abort', leave)
    this.#owners.add(owner)
    try {
      return await Promise.race([gone, Promise.all(encoding).then(() => known)])
    } finally {
      owner.signal.removeEventListener('abort', leave)
      this.#owners.delete(owner)
    }
  }

  async #join(asked: Pick<Waiting, 'job' | 'file' | 'owner' | 'onCounted'>): Promise<EncodedMedia> {
    const { size } = asked.job
    const factors = asked.file.type === 'image' ? [1, size, 0, 0] : [0, 0, 1, size]
    const cameAt = this.clock.now()
    return await new Promise((resolve, reject) => {
      this.#waiting.add({ ...asked, factors, cameAt, overtaken: 0, resolve, reject })
      if (this.#running === undefined) void this.#run()
    })
  }

  async #run(): Promise<void> {
    for (let next = this.#next(); next !== undefined; next = this.#next()) {
      const { job, file, owner, factors, cameAt } = next
      const startedAt = this.clock.now()
      const stop = new AbortController()
      const predicted = this.#costs.predict(factors)
      const keptUntil = startedAt + Math.max(unwanted.leastMs, unwanted.times * predicted)
      this.#running = { ...next, startedAt, ms: predicted, keptUntil, stop }
      const patienceMs = Math.max(this.#patienceMs[file.type], hung.times * predicted)
      const limitMs = Math.min(hung.mostMs, patienceMs)
      const unwatch = [
        this.clock.at(keptUntil, () => this.#stopUnwanted()),
        this.clock.at(startedAt + limitMs, () => {
          const why = `${file.type}: expected to be encoded within ${limitMs / 1000} s, got no answer`
          this.#patienceMs[file.type] *= 2
          stop.abort(new CllmError('backend_failed', why))
        }),
      ]
      try {
        const encoded = await job.run(stop.signal, next.onCounted)
        const ms = this.clock.now() - startedAt
        this.#costs.observe(factors, ms)
        this.#patienceMs[file.type] = Math.max(hung.leastMs, 2 * ms)
        this.#counts.encoded++
        this.#counts.encodeMs += ms
        this.#counts.queueMs += startedAt - cameAt
        owner.encodeMs += ms
        next.resolve(encoded)
        for (const same of this.#take((one) => one.job.key === job.key)) same.resolve(encoded)
      } catch (error) {
        this.#counts.failed++
        // A new request for a file whose unwanted encoding was just stopped has not failed: it is encoded again.
        const hasFailed = CllmError.from(error).code !== 'cancelled'
        const alike = this.#take((one) => hasFailed && one.job.key === job.key)
        for (const failed of [next, ...alike]) {
          failed.reject(inField(failed.file, error))
          // The request's other files are not needed, unless the request continues without this one.
          if (hasSubstitute(failed.file, error)) continue
          const others = this.#take((one) => one.owner === failed.owner)
          for (const other of others) other.reject(inField(other.file, error))
        }
      } finally {
        for (const end of unwatch) end()
        // Its tenant is charged as many prompt tokens as would take that long.
        const promptTokens = this.engineCosts.steps.prefillTokens(this.clock.now() - startedAt, 0)
        this.policy.onServed({ tenant: owner.tenant, promptTokens, generatedTokens: 0 })
      }
    }
    this.#running = undefined
  }

  /** Stops an encoding that nobody waits for after a while; until then it goes on, as its result is cached. */
  #stopUnwanted(): void {
    const now = this.clock.now()
    if (this.#running === undefined || now < this.#running.keptUntil) return
    const { job, owner, factors, startedAt, stop } = this.#running
    if (!owner.signal.aborted || stop.signal.aborted) return
    if ([...this.#waiting].some((one) => one.job.key === job.key)) return
    // Learned as a lower bound, so that the next similar file may run longer.
    this.#costs.observe(factors, now - startedAt)
    stop.abort(new CllmError('cancelled', 'nobody waits for it any more'))
  }

  /** Removes the matching files from the queue and returns them. */
  #take(which: (one: Waiting) => boolean): Waiting[] {
    return [...this.#waiting].filter((one) => which(one) && this.#waiting.delete(one))
  }

  /** Removes the next file from the queue. */
  #next(): Waiting | undefined {
    const [first] = this.#waiting
    if (first === undefined) return undefined
    let next = first
    if (first.overtaken < mostOvertaken) {
      let least = Infinity
      for (const one of this.#waiting) {
        const rank = this.policy.arrivalRank(one.owner)
        if (rank < least) [least, next] = [rank, one]
      }
    }
    this.#waiting.delete(next)
    if (next !== first) first.overtaken++
    return next
  }
}

const isJob = (one: EncodedMedia | EncodeJob | undefined): one is EncodeJob =>
  one !== undefined && 'run' in one

/** Whether a text takes the place of a file that cannot be read. */
const hasSubstitute = ({ otherwise }: PromptMedia, error: unknown): boolean =>
  otherwise !== undefined && CllmError.isInstance(error) && error.code === 'invalid_media'

/** Undefined if a text takes the place of the file; otherwise throws the error. */
function unread(file: PromptMedia, error: unknown): undefined {
  if (!hasSubstitute(file, error)) throw error
}

/** The error, with the request's field that has the file. */
function inField({ field }: PromptMedia, cause: unknown): unknown {
  if (field === undefined) return cause
  const { code, message } = CllmError.from(cause)
  return new CllmError(code, `${field}: ${message}`, { cause, details: { field } })
}
