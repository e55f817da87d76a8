import { inject, injectable } from 'tsyringe'
import type { Backend, StepOutput } from '../../contracts/model/backend.js'
import type { EngineStatistics } from '../../contracts/engine/engine-statistics.js'
import type { Plan } from '../../contracts/scheduling/scheduler-policy.js'
import type { Tokenizer } from '../../contracts/model/tokenizer.js'
import { defined } from '../../defined.js'
import { cancelReason, CllmError } from '../../errors/cllm-error.js'
import { synchronous } from '../../plugin/checks.js'
import * as tokens from '../../tokens.js'
import { createSampler, toError } from '../backend-calls.js'
import { AdapterTable } from '../features/adapters.js'
import { InFlightPrefixSharing } from '../kv/in-flight-prefix-sharing.js'
import * as parts from '../engine-parts.js'
import type { Logger } from '../../contracts/services.js'
import { BetweenSteps } from '../loop/between-steps.js'
import { endState } from '../report/counters.js'
import { OutputProcessor } from './output-processor.js'
import { EngineObservers } from '../report/engine-observers.js'
import type { StepPart } from '../loop/run-step.js'
import { Expiry, RunningSet, WaitingQueue, SampleLane } from './request-sets.js'
import type { Sequence } from './sequence.js'

const noRoom = new CllmError('internal', 'The KV cache has no room for a request that is alone')

/**
 * The table of all requests in flight, waiting or with a slot. It moves them between their states, tells the observers,
 * and is the only writer of a sequence's state, progress and times. All methods but `add` and `mark` are called between
 * two steps, so that nothing is taken from a step that is being computed.
 */
@injectable()
export class RequestTable {
  readonly #expiry = new Expiry()
  /** Requests that end before the next step, each with the error for its client, if any. */
  readonly #leaving = new Map<Sequence, CllmError | undefined>()
  readonly samples: SampleLane

  constructor(
    @inject(tokens.BACKEND) private readonly backend: Backend,
    @inject(tokens.TOKENIZER) private readonly tokenizer: Tokenizer,
    @inject(parts.KV_CACHE_MANAGER) private readonly kv: parts.KVCacheManager,
    @inject(parts.WAIT_PREDICTOR) private readonly predictor: parts.WaitPredictor,
    @inject(InFlightPrefixSharing) private readonly sharing: InFlightPrefixSharing,
    @inject(WaitingQueue) readonly waiting: WaitingQueue,
    @inject(RunningSet) readonly running: RunningSet,
    @inject(AdapterTable) private readonly adapters: AdapterTable,
    @inject(EngineObservers) private readonly observers: EngineObservers,
    @inject(OutputProcessor) private readonly output: OutputProcessor,
    @inject(BetweenSteps) private readonly between: BetweenSteps,
    @inject(tokens.LOGGER) private readonly logger: Logger,
  ) {
    this.samples = new SampleLane(backend, waiting, running)
  }

  get isIdle(): boolean {
    return this.waiting.total === this.waiting.encoding.size && this.running.size === 0
  }

  statistics(): Pick<EngineStatistics, 'waiting' | 'running' | 'slots' | 'cache' | 'kvPool'> {
    const { waiting, running, kv } = this
    const counts = { waiting: waiting.total, running: running.size, slots: kv.statistics() }
    return { ...counts, ...defined({ cache: kv.cache(), kvPool: kv.pool() }) }
  }

  find(id: string): Sequence | undefined {
    return this.waiting.get(id) ?? this.running.get(id)
  }

  all(): Sequence[] {
    return [...this.waiting.all(), ...this.running.values()]
  }

  /** The next time limit, of a request or of a wait for a prefix; none: Infinity. */
  wakesAt(): number {
    return Math.min(this.#expiry.next(), this.sharing.next())
  }

  add(sequence: Sequence, now: number): void {
    const { expires, sample } = sequence.request
    this.waiting.add(sequence)
    if (expires !== undefined) this.#expiry.add(sequence, expires)
    this.observers.tell('onQueued', sequence, now)
    if (sample !== undefined && this.samples.add(sequence)) return
    this.#findPrefix(sequence, now)
  }

  /** Preempts a sample for other requests, and shows samples whose turn has come. */
  turnSamples(now: number): void {
    const victim = this.samples.victim(this.kv.freeSlots)
    if (victim !== undefined) {
      this.preempt(victim, now)
      this.samples.hold(victim)
    }
    for (const sequence of this.samples.release(now)) this.#findPrefix(sequence, now)
  }

  /**
   * Gives slots to the admitted requests that still wait, have room and are not about to leave; requests that cannot
   * run are marked to end. A request whose prefix another one is computing stays waiting.
   *
   * @param insists - admits such a request nevertheless, as there is nothing else to compute
   */
  async admitAll({ admit }: Plan, now: number, insists: boolean): Promise<void> {
    const answerTokens = (one: Sequence): number => this.predictor.answerTokens?.(one) ?? Infinity
    for (const id of admit) {
      const sequence = this.waiting.get(id)
      if (sequence === undefined || this.isLeaving(sequence)) continue
      if (!insists && this.sharing.defer(sequence, now)) continue
      // No later request is admitted before it, however small: a large one would wait for ever.
      if (this.kv.isPool && !(await this.kv.admits(sequence, answerTokens))) {
        // A plug-in's KV cache may refuse a request that is alone: asking again and again would keep the loop busy.
        if (insists && this.running.size === 0) this.mark(sequence, noRoom)
        break
      }
      // If it is not ready, others go first; its slot stays free, as a plan admits no more than there are slots.
      if (!this.kv.prepare(sequence, insists)) continue
      this.waiting.remove(sequence)
      this.sharing.onLeft(sequence)
      this.running.set(id, sequence)
      sequence.state = 'prefilling'
      sequence.admittedAt ??= now
      try {
        const { request, tokens, promptTokens } = sequence
        const { adapters, sampling, processors, shift } = request
        if (adapters.applied.length > 0) this.adapters.ensureLoaded(adapters.applied)
        await this.kv.acquire(sequence)
        if (shift !== undefined) this.#makeRoom(sequence, now)
        this.observers.tell('onPreparing', sequence, now)
        sequence.sampler = createSampler(this.backend, sampling, tokens, promptTokens, processors)
      } catch (error) {
        this.mark(sequence, toError(error))
        continue
      }
      this.sharing.onAdmitted(sequence, now)
      this.observers.tell('onAdmitted', sequence, now)
    }
  }

  /** A part of a step was computed; its drafts are handled by {@link verify}. */
  advance({ request: sequence, tokens: all, isDecode, drafts = 0 }: StepPart, now: number): void {
    const tokens = all - drafts
    const { computedTokens, firstComputed = computedTokens } = sequence
    sequence.firstComputed = Math.min(firstComputed, computedTokens)
    sequence.computedTokens += tokens
    const held = Math.min(sequence.computedTokens, sequence.promptTokens)
    sequence.promptHeld = Math.max(sequence.promptHeld, held)
    if (!isDecode) sequence.prefillChunks++
    this.kv.onAdvanced(sequence)
    this.sharing.onAdvanced(sequence, sequence.computedTokens, now)
    if (sequence.request.shift !== undefined) this.#makeRoom(sequence, now)
  }

  /** Appends a sampled token; the sequence has a `finish` when it was the last. */
  append(sequence: Sequence, { token, logprobs }: StepOutput, now: number): void {
    sequence.state = 'decoding'
    sequence.firstTokenAt ??= now
    sequence.lastTokenAt = now
    try {
      if (sequence.mayEnd && this.tokenizer.isEndOfGeneration(token)) sequence.finish = 'stop'
    } catch (error) {
      throw toError(error, 'isEndOfGeneration')
    }
    if (sequence.finish !== undefined) return
    sequence.tokens.push(token)
    sequence.drafts?.onDrawn(token)
    if (logprobs !== undefined) sequence.logprobs.push(logprobs)
    const held = sequence.tokens.length - sequence.discarded
    const { shift } = sequence.request
    const isFull = held > this.backend.limits.contextSize && shift === undefined
    if (isFull || sequence.generatedTokens >= sequence.maxTokens) sequence.finish = 'length'
    if (shift !== undefined) this.#makeRoom(sequence, now)
  }

  /**
   * The drafts of a part were verified: `drawn` tokens came of it, those that are wanted are appended,
   * and the drafts among them are computed. The slot gives the others back.
   */
  verify({ request: sequence, context, drafts = 0 }: StepPart, drawn: number, now: number): void {
    sequence.drafts?.onVerified(drafts, Math.max(0, drawn - 1))
    this.kv.truncate(sequence, Math.min(context + drawn, sequence.tokens.length))
    // The backend had to drop more: that is computed again, as a prompt is.
    if (sequence.remainingTokens > 1) sequence.state = 'prefilling'
    this.sharing.onAdvanced(sequence, sequence.computedTokens, now)
  }

  /** Takes a running request's slot away; it waits again and keeps its tokens. */
  preempt(sequence: Sequence, now: number): void {
    this.#giveBack(sequence, now)
    sequence.state = 'preempted'
    sequence.preemptions++
    this.waiting.add(sequence)
    this.observers.tell('onPreempted', sequence, now)
    this.sharing.onWaiting(sequence, now)
  }

  /** Whether the request ends before the next step. */
  isLeaving(sequence: Sequence): boolean {
    return this.#leaving.has(sequence)
  }

  /** Marks a request to end before the next step. If it is marked again, the first error counts. */
  mark(sequence: Sequence, error?: CllmError): void {
    if (!this.#leaving.has(sequence)) this.#leaving.set(sequence, error)
    this.between.notify()
  }

  /** Ends requests that are marked or timed out, and releases those whose wait for a prefix has expired. */
  settle(now: number): void {
    if (this.wakesAt() <= now) {
      this.sharing.expire(now)
      for (const [sequence, error] of this.#expiry.due(now)) this.mark(sequence, error)
    }
    for (const [sequence, error] of this.#leaving) this.finish(sequence, now, error)
    this.#leaving.clear()
  }

  /** Ends a request: its id and its slot are free. */
  finish(sequence: Sequence, now: number, error?: CllmError): void {
    if (!sequence.isActive) return
    this.waiting.remove(sequence)
    if (sequence.request.sample !== undefined) this.samples.remove(sequence)
    sequence.encoding?.files.abort(new CllmError('cancelled', cancelReason))
    this.sharing.onLeft(sequence)
    try {
      this.#giveBack(sequence, now)
    } finally {
      // Even if the KV cache cannot take the slot back, the request has ended and its client gets an answer.
      sequence.state = endState(error)
      sequence.isActive = false
      this.observers.tell('onFinished', sequence, now)
      if (error !== undefined && !sequence.hasEnded) {
        this.output.fail(sequence, error, now)
        this.onPublished(sequence, now, error)
      }
    }
  }

  /** The last event of a request was published: a pending cancel or timeout has no effect any more. */
  onPublished(sequence: Sequence, now: number, error?: CllmError): void {
    const end = { ...sequence.account(now), state: endState(error), error }
    this.observers.tell('onEnded', sequence, end, now)
    if (!sequence.isActive) return
    this.#leaving.set(sequence, error)
    this.between.notify()
  }

  /** Ends all requests. If the KV cache cannot take a slot back, the error is thrown after all have ended. */
  failAll(error: CllmError, now: number): void {
    this.logger.error({ code: error.code, err: error.cause ?? error }, error.message)
    // Requests that are leaving may have had their last event: they keep their own end.
    const ends = [...this.#leaving, ...this.all().map((sequence) => [sequence, error] as const)]
    this.#leaving.clear()
    let isBroken = false
    for (const [sequence, reason] of ends) {
      try {
        this.finish(sequence, now, reason)
      } catch (thrown) {
        isBroken = true
        this.logger.error({ err: thrown }, 'the KV cache could not take a slot back')
      }
    }
    if (isBroken) throw error
  }

  /** Looks for the prefix of a request that may be admitted: being computed by another request, or in files. */
  #findPrefix(sequence: Sequence, now: number): void {
    try {
      this.sharing.onWaiting(sequence, now)
      this.kv.onWaiting(sequence)
    } catch (error) {
      // This is the first call to a plug-in's KV cache: its error must end this request, not the process.
      this.mark(sequence, CllmError.from(error))
    }
  }

  /** Drops tokens of a full slot (context shift), always at the same points of a sequence. */
  #makeRoom(sequence: Sequence, now: number): void {
    const { shift, contextSize } = sequence.request
    if (shift === undefined || sequence.slotTokens < contextSize) return
    if (sequence.finish !== undefined || sequence.remainingTokens === 0) return
    this.kv.shift(sequence, shift.keep, shift.discard)
    // Its tokens can no longer be copied: no request waits for them any more.
    this.sharing.onAdvanced(sequence, Infinity, now)
  }

  #giveBack(sequence: Sequence, now: number): void {
    this.running.delete(sequence.id)
    this.kv.release(sequence, now)
    sequence.computedTokens = 0
    sequence.discarded = 0
    try {
      synchronous(sequence.sampler?.dispose(), 'dispose')
    } catch (error) {
      // The request has to end all the same.
      this.logger.error({ err: error }, 'a sampler could not be disposed of')
    }
    sequence.sampler = undefined
    // No request waits for what it would have computed.
    this.sharing.onAdvanced(sequence, Infinity, now)
  }
}
