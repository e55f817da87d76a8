import { inject, injectable } from 'tsyringe'
import type { Clock } from '../../contracts/services.js'
import type { GenerateRequest } from '../../contracts/engine/generate-request.js'
import type { TokenId } from '../../contracts/model/tokenizer.js'
import { CllmError, takesNone } from '../../errors/cllm-error.js'
import { synchronous } from '../../plugin/checks.js'
import * as tokens from '../../tokens.js'
import { AdapterTable } from '../features/adapters.js'
import { EngineObservers } from '../report/engine-observers.js'
import { OutputProcessor } from '../requests/output-processor.js'
import * as parts from '../engine-parts.js'
import { timedOut } from '../requests/request-sets.js'
import { RequestTable } from '../requests/request-table.js'
import { Sequence } from '../requests/sequence.js'
import { hasMedia, type MixedPrompt, resolveMedia } from './resolve-media.js'
import { checkLength, resolvePrompt } from './resolve-prompt.js'
import { InputContext, resolveRequest } from './resolve-request.js'
import { withStableBeginning } from './volatile-lines.js'

/** A request that may join the queue, or the error why it may not. */
export type Processed = Sequence | CllmError

/** A request that is not in the queue yet, as its prompt is being tokenized or its id is not free. */
interface Arrival {
  /** The error with which it was ended meanwhile. */
  error?: CllmError
  /** Aborts the check of its constraint and the encoding of its images and sounds, if it has any. */
  ending?: AbortController
  /** Called when its id is free, or the request was ended. */
  proceed?: () => void
  /** Releases its hold on adapters; once it is queued, the queue keeps them in memory. */
  release?: () => void
}

/** Ends what is under way for a request that was ended or has failed. */
function end(arrival: Arrival, error: CllmError): void {
  arrival.error ??= error
  arrival.proceed?.()
  arrival.ending?.abort(arrival.error)
}

/** Turns requests into sequences: checks them, tokenizes their prompts, asks the admission. */
@injectable()
export class InputProcessor {
  isOpen = true
  readonly #arriving = new Map<string, Arrival>()

  constructor(
    @inject(InputContext) private readonly context: InputContext,
    @inject(tokens.CLOCK) private readonly clock: Clock,
    @inject(parts.KV_CACHE_MANAGER) private readonly kv: parts.KVCacheManager,
    @inject(parts.WAIT_PREDICTOR) private readonly predictor: parts.WaitPredictor,
    @inject(parts.ADMISSION) private readonly admission: parts.Admission,
    @inject(AdapterTable) private readonly adapters: AdapterTable,
    @inject(RequestTable) private readonly table: RequestTable,
    @inject(OutputProcessor) private readonly output: OutputProcessor,
    @inject(EngineObservers) private readonly observers: EngineObservers,
  ) {}

  /** Whether requests are on their way to the queue. */
  get isBusy(): boolean {
    return this.#arriving.size > 0
  }

  /**
   * Turns a request into a sequence: at once, or a little later if its prompt is long, or its id still belongs to a
   * request that is about to leave. A later result must be taken with `settle`.
   */
  process(id: string, request: GenerateRequest): Processed | Promise<Processed> {
    const arrival: Arrival = {}
    const fail = (thrown: unknown): CllmError => {
      const error = CllmError.from(thrown)
      end(arrival, error)
      return error
    }
    try {
      if (!this.isOpen) throw takesNone()
      const previous = this.table.find(id)
      const isLeaving = previous === undefined || previous.hasEnded
      if (!isLeaving || this.#arriving.has(id) || this.output.owes(id)) {
        throw new CllmError('duplicate_request', `A request with the id "${id}" is under way`)
      }
      const isTaken = previous !== undefined
      const processed = isTaken
        ? this.#afterPrevious(id, request, arrival)
        : this.#read(id, request, arrival)
      return processed instanceof Promise ? processed.catch(fail) : processed
    } catch (error) {
      return fail(error)
    }
  }

  /** Takes in the late result of `process`; returns the error if the request was ended meanwhile. */
  settle(id: string): CllmError | undefined {
    const arrival = this.#arriving.get(id)
    this.#arriving.delete(id)
    arrival?.release?.()
    return arrival?.error
  }

  /** Ends a request that is being processed with this error; false if there is none. */
  cancel(id: string, error: CllmError): boolean {
    const arrival = this.#arriving.get(id)
    if (arrival === undefined) return false
    end(arrival, error)
    return true
  }

  /** Takes no more requests, and ends those being processed. */
  close(error: CllmError): void {
    this.isOpen = false
    for (const id of this.#arriving.keys()) this.cancel(id, error)
  }

  /** Waits until the previous request with the same id, which has ended, has left. */
  async #afterPrevious(id: string, request: GenerateRequest, arrival: Arrival): Promise<Processed> {
    this.#arriving.set(id, arrival)
    const onFinished = (ended: Sequence) => void (ended.id === id && arrival.proceed?.())
    const leave = this.observers.add({ onFinished })
    await new Promise<void>((resolve) => (arrival.proceed = resolve))
    leave()
    if (arrival.error !== undefined) throw arrival.error
    if (!this.isOpen) throw takesNone()
    return await this.#read(id, request, arrival)
  }

  #read(id: string, given: GenerateRequest, arrival: Arrival): Sequence | Promise<Sequence> {
    const { context, kv, clock } = this
    const { continued, arrivedMsAgo = 0 } = given
    const now = clock.now()
    const arrivedAt = now - (continued?.elapsedMs ?? arrivedMsAgo)
    const others = this.#arriving.size - Number(this.#arriving.has(id))
    const isNew = continued === undefined
    if (isNew) synchronous(this.admission.checkCount(others, now), 'checkCount of the admission')
    const stable = withStableBeginning(given.prompt, context.options.volatileLines)
    const request = stable.prompt === given.prompt ? given : { ...given, prompt: stable.prompt }
    const adapters = this.adapters.resolve(request.adapters)
    const [complete, check] = resolveRequest(id, request, context, { adapters, now: arrivedAt })
    const isMixed = context.backend.media !== undefined && hasMedia(request.prompt)
    const ending = isMixed || check !== undefined ? new AbortController() : undefined
    if (ending !== undefined) arrival.ending = ending
    const checked = check?.(ending!.signal)
    checked?.catch(() => {}) // a wrong prompt ends the request before
    const admit = (
      tokens: TokenId[],
      { media, waited, encoding }: Partial<MixedPrompt> = {},
    ): Sequence => {
      const now = clock.now()
      const sequence = new Sequence(complete(tokens, media), tokens, arrivedAt, kv)
      // The slots of the engine that drew its first tokens may hold more.
      if (sequence.request.shift === undefined) checkLength(sequence.tokens, context)
      sequence.media = media
      sequence.encodeWait = waited
      if (encoding !== undefined) sequence.encoding = { ...encoding, files: ending! }
      sequence.messages = stable.messages
      const waits = this.table.waiting.total >= kv.freeSlots
      if (waits || sequence.request.forecast) {
        const { firstTokenMs, ...forecast } = this.predictor.forecast(sequence, now)
        const { encode = 0, encoder = 0 } = waited ?? {}
        const beforeMs = (firstTokenMs * (encoding?.from ?? 0)) / tokens.length
        const restMs = encoding === undefined ? 0 : Math.max(0, context.lane.leftMs() - beforeMs)
        sequence.forecast = { ...forecast, firstTokenMs: firstTokenMs + restMs + encode + encoder }
      }
      if (isNew) synchronous(this.admission.check(sequence, now), 'check of the admission')
      return sequence
    }
    const ensureWanted = () => {
      if (arrival.error !== undefined) throw arrival.error
    }
    const prompt = isMixed
      ? resolveMedia(
          request.prompt,
          context,
          context.ownerOf(id, request, arrivedAt, ending!.signal),
        )
      : resolvePrompt(request.prompt, context, ensureWanted)
    const isLate = prompt instanceof Promise || checked !== undefined
    if (isLate) this.#arriving.set(id, arrival)
    if (this.#arriving.has(id)) arrival.release = this.adapters.hold(adapters)
    if (!isLate) return admit(prompt)
    const isEnded = new Promise<void>((resolve) => (arrival.proceed = resolve))
    const isChecked = checked && context.parts.during(Promise.race([checked, isEnded]))
    const late = Promise.all([prompt, isChecked]).then(([read]) => {
      ensureWanted()
      return 'tokens' in read ? admit(read.tokens, read) : admit(read)
    })
    const { timeoutMs = context.options.requestTimeoutMs } = request
    if ((!isMixed && checked === undefined) || timeoutMs === undefined) return late
    // The time limit also holds while the request waits for the encoder, or for the check of its constraint.
    const expire = () => end(arrival, timedOut({ arrival: arrivedAt }, clock.now()))
    return late.finally(clock.at(arrivedAt + timeoutMs, expire))
  }
}
