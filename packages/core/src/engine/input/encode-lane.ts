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

/** Whose files are encoded. */
export interface EncodeOwner extends ArrivalView {
  /** Empty: it is no request. */
  readonly id: string
  /** When its files came. */
  readonly since: number
  /** Encodings are shared within one; undefined: with nobody. */
  readonly scope: string | undefined
  /** Aborts when they do not matter any more, with a {@link CllmError}. */
  readonly signal: AbortSignal
  /** Whether it may be refused: nothing was promised to its client. */
  readonly isNew: boolean
  /** Milliseconds in which its own files were encoded. */
  encodeMs: number
}

interface Waiting {
  readonly job: EncodeJob
  readonly file: PromptMedia
  readonly owner: EncodeOwner
  /** What its cost is predicted from. */
  readonly factors: readonly number[]
  readonly cameAt: number
  /** How many later ones went first. */
  overtaken: number
  readonly resolve: (encoded: EncodedMedia) => void
  readonly reject: (error: unknown) => void
}

interface Running extends Waiting {
  readonly startedAt: number
  /** What it is predicted to take. */
  readonly ms: number
  /** Until when it runs though nobody waits for it. */
  readonly keptUntil: number
  readonly stop: AbortController
}

/** After so many later ones, the first that came is next, whatever the policy prefers. */
const mostOvertaken = 16

/** One that nobody waits for any more may run for so many times its prediction, and for so many milliseconds at least. */
const unwanted = { times: 4, leastMs: 10_000 }

/** One that takes so many times its prediction hangs: not before `leastMs`, but after `mostMs`. */
const hung = { times: 10, leastMs: 120_000, mostMs: 600_000 }

/** Milliseconds of a file and of a unit of its size, before one was encoded: images, then sounds. */
const guesses = [50, 500, 50, 50]
const kinds = ['image', 'image', 'audio', 'audio']

/**
 * The files that wait to be encoded, beside the steps and one at a time: the policy says whose is next, and what
 * encoding costs is learnt.
 */
@injectable()
export class EncodeLane {
  /** In the order in which they came. */
  readonly #waiting = new Set<Waiting>()
  readonly #owners = new Set<EncodeOwner>()
  #running: Running | undefined
  readonly #costs = new LinearFit({ prior: guesses, kinds, memory: 0.9, outlier: 3 })
  /** What each may take at least: more before the first of its type, and after one that hung, as all may have become slow. */
  readonly #patienceMs: Record<MediaType, number> = { image: hung.mostMs, audio: hung.mostMs }
  readonly #counts = { encoded: 0, failed: 0, found: 0, encodeMs: 0, queueMs: 0 }

  constructor(
    @inject(tokens.BACKEND) private readonly backend: Backend,
    @inject(tokens.CLOCK) private readonly clock: Clock,
    @inject(ENGINE_OPTIONS) private readonly options: EngineOptions,
    @inject(PolicyRunner) private readonly policy: PolicyRunner,
    @inject(ENGINE_COSTS) private readonly engineCosts: EngineCosts,
  ) {}

  /** What it has done and what waits; undefined where nothing can be encoded. */
  statistics(): EncodeStatistics | undefined {
    if (this.backend.media === undefined) return undefined
    const waiting = this.#waiting.size + Number(this.#running !== undefined)
    return { waiting, waitMs: this.waitMs(), ...this.#counts }
  }

  /** The requests whose files wait or are encoded, as they came. */
  requests(): EncodeOwner[] {
    return [...this.#owners].filter(({ id }) => id !== '')
  }

  /** Milliseconds for which one's own files were encoded so far, and for which it waited for others before. */
  waited(owner: EncodeOwner): Readonly<Record<'encode' | 'encoder', number>> {
    const now = this.clock.now()
    const { startedAt = now } = this.#running?.owner === owner ? this.#running : {}
    const encode = owner.encodeMs + now - startedAt
    return { encode, encoder: now - owner.since - encode }
  }

  /** Milliseconds until all that wait now are encoded. */
  waitMs(): number {
    const { startedAt = 0, ms = 0, job: running } = this.#running ?? {}
    let left = Math.max(0, startedAt + ms - this.clock.now())
    const once = new Map([...this.#waiting].map(({ job, factors }) => [job.key, factors]))
    for (const [key, factors] of once)
      if (key !== running?.key) left += this.#costs.predict(factors)
    return left
  }

  /**
   * Encodes the files of a request in their turns, or finds what is kept of them; undefined for one that cannot be read
   * and need not be.
   * @throws CllmError as {@link MediaEncoder} does, `wait_too_long`, and what the owner's signal is aborted with
   */
  async encode(
    files: readonly PromptMedia[],
    owner: EncodeOwner,
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
    const encoding = prepared.map(async (one, index) => {
      if (!isJob(one)) return one
      const file = files[index]!
      return await this.#join(one, file, owner).catch((error: unknown) => unread(file, error))
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
      return await Promise.race([gone, Promise.all(encoding)])
    } finally {
      owner.signal.removeEventListener('abort', leave)
      this.#owners.delete(owner)
    }
  }

  async #join(job: EncodeJob, file: PromptMedia, owner: EncodeOwner): Promise<EncodedMedia> {
    const { size } = job
    const factors = file.type === 'image' ? [1, size, 0, 0] : [0, 0, 1, size]
    const cameAt = this.clock.now()
    return await new Promise((resolve, reject) => {
      this.#waiting.add({ job, file, owner, factors, cameAt, overtaken: 0, resolve, reject })
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
        const encoded = await job.run(stop.signal)
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
        // Who asks while an unwanted one is stopped has not failed.
        const hasFailed = CllmError.from(error).code !== 'cancelled'
        const alike = this.#take((one) => hasFailed && one.job.key === job.key)
        for (const failed of [next, ...alike]) {
          failed.reject(inField(failed.file, error))
          // What else its request has is not needed, unless the request goes on without this one.
          if (hasSubstitute(failed.file, error)) continue
          const others = this.#take((one) => one.owner === failed.owner)
          for (const other of others) other.reject(inField(other.file, error))
        }
      } finally {
        for (const end of unwatch) end()
        // Its tenant pays for as many prompt tokens as take that long.
        const promptTokens = this.engineCosts.steps.prefillTokens(this.clock.now() - startedAt, 0)
        this.policy.onServed({ tenant: owner.tenant, promptTokens, generatedTokens: 0 })
      }
    }
    this.#running = undefined
  }

  /** What it gives is kept, so that one that nobody waits for goes on, but does not hold up the others for long. */
  #stopUnwanted(): void {
    const now = this.clock.now()
    if (this.#running === undefined || now < this.#running.keptUntil) return
    const { job, owner, factors, startedAt, stop } = this.#running
    if (!owner.signal.aborted || stop.signal.aborted) return
    if ([...this.#waiting].some((one) => one.job.key === job.key)) return
    // The next of its like may run for longer.
    this.#costs.observe(factors, now - startedAt)
    stop.abort(new CllmError('cancelled', 'nobody waits for it any more'))
  }

  /** Takes these out of the queue. */
  #take(which: (one: Waiting) => boolean): Waiting[] {
    return [...this.#waiting].filter((one) => which(one) && this.#waiting.delete(one))
  }

  /** Takes out whose turn it is. */
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

/** Whether a text stands for a file that failed, as it cannot be read. */
const hasSubstitute = ({ otherwise }: PromptMedia, error: unknown): boolean =>
  otherwise !== undefined && CllmError.isInstance(error) && error.code === 'invalid_media'

/** Nothing, where a text stands for the file. */
function unread(file: PromptMedia, error: unknown): undefined {
  if (!hasSubstitute(file, error)) throw error
}

/** The error, with the field that has the file. */
function inField({ field }: PromptMedia, cause: unknown): unknown {
  if (field === undefined) return cause
  const { code, message } = CllmError.from(cause)
  return new CllmError(code, `${field}: ${message}`, { cause, details: { field } })
}
