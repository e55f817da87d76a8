import { inject, injectable } from 'tsyringe'
import type { Clock } from '../../contracts/clock.js'
import type { GenerateRequest } from '../../contracts/engine/generate-request.js'
import type { EngineObserver } from '../../contracts/engine/engine-observer.js'
import type { MediaSpan } from '../../contracts/model/media.js'
import type { TokenId } from '../../contracts/model/tokenizer.js'
import { CllmError } from '../../errors/cllm-error.js'
import * as tokens from '../../tokens.js'
import { AdapterTable, noAdapters } from '../features/adapters.js'
import { OutputProcessor } from '../requests/output-processor.js'
import * as parts from '../engine-parts.js'
import { RequestTable } from '../requests/request-table.js'
import { Sequence } from '../requests/sequence.js'
import { hasMedia, resolveMedia } from './resolve-media.js'
import { resolvePrompt } from './resolve-prompt.js'
import { InputContext, resolveRequest } from './resolve-request.js'

/** A request that may join the queue, or why it may not. */
export type Processed = Sequence | CllmError

/** A request on its way to the queue: its prompt is tokenized, or its id is not free yet. */
interface Arrival {
  /** Why it is not wanted any more. */
  error?: CllmError
  /** Called when the id is free, or the request is not wanted any more. */
  proceed?: () => void
  /** Gives its adapters back: from then on the queue keeps them in memory. */
  release?: () => void
}

/** Turns requests into sequences: checks them, tokenizes their prompts, asks the admission. */
@injectable()
export class InputProcessor implements EngineObserver {
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
  ) {}

  /** Whether requests are on their way to the queue. */
  get isBusy(): boolean {
    return this.#arriving.size > 0
  }

  /**
   * Turns a request into a sequence at once or, with a long prompt or while its id belongs to a request
   * that is about to leave, a little later. A later result counts as on its way until `settle`.
   */
  process(id: string, request: GenerateRequest): Processed | Promise<Processed> {
    try {
      if (!this.isOpen) throw takesNone()
      const previous = this.table.find(id)
      const isLeaving = previous === undefined || previous.hasEnded
      if (!isLeaving || this.#arriving.has(id) || this.output.owes(id)) {
        throw new CllmError('duplicate_request', `A request with the id "${id}" is under way`)
      }
      const isTaken = previous !== undefined
      const processed = isTaken ? this.#afterPrevious(id, request) : this.#read(id, request)
      return processed instanceof Promise
        ? processed.catch((error) => CllmError.from(error))
        : processed
    } catch (error) {
      return CllmError.from(error)
    }
  }

  /** The result of a request that took longer is taken in; returns why it is no longer wanted. */
  settle(id: string): CllmError | undefined {
    const arrival = this.#arriving.get(id)
    this.#arriving.delete(id)
    arrival?.release?.()
    return arrival?.error
  }

  /** Ends a request that is on its way, if there is one, with this error. */
  cancel(id: string, error: CllmError): boolean {
    const arrival = this.#arriving.get(id)
    if (arrival === undefined) return false
    arrival.error ??= error
    arrival.proceed?.()
    return true
  }

  /** Takes nothing more, and ends what is on its way. */
  close(error: CllmError): void {
    this.isOpen = false
    for (const id of this.#arriving.keys()) this.cancel(id, error)
  }

  onFinished({ id }: Sequence): void {
    this.#arriving.get(id)?.proceed?.()
  }

  /** The id belongs to a request that has ended and leaves before the next step. */
  async #afterPrevious(id: string, request: GenerateRequest): Promise<Processed> {
    const arrival: Arrival = {}
    this.#arriving.set(id, arrival)
    await new Promise<void>((resolve) => (arrival.proceed = resolve))
    if (arrival.error !== undefined) throw arrival.error
    if (!this.isOpen) throw takesNone()
    return await this.#read(id, request)
  }

  #read(id: string, request: GenerateRequest): Sequence | Promise<Sequence> {
    const { context, kv, clock } = this
    const { continued, arrivedMsAgo = 0 } = request
    const arrivedAt = clock.now() - (continued?.elapsedMs ?? arrivedMsAgo)
    const others = this.#arriving.size - Number(this.#arriving.has(id))
    if (continued === undefined) this.admission.checkCount(others, clock.now())
    const { adapters: choices } = request
    const adapters = choices === undefined ? noAdapters : this.adapters.resolve(choices)
    const complete = resolveRequest(id, request, context, { adapters, now: arrivedAt })
    const isNew = continued === undefined
    const admit = (tokens: TokenId[], media?: readonly MediaSpan[]): Sequence => {
      const now = clock.now()
      const sequence = new Sequence(complete(tokens, media), tokens, arrivedAt, kv)
      sequence.media = media
      const waits = this.table.waiting.total >= kv.freeSlots
      if (waits || sequence.request.forecast) {
        sequence.forecast = this.predictor.forecast(sequence, now)
      }
      if (isNew) this.admission.check(sequence, now)
      return sequence
    }
    const ensureWanted = () => {
      const error = this.#arriving.get(id)?.error
      if (error !== undefined) throw error
    }
    const isMixed = context.backend.media !== undefined && hasMedia(request.prompt)
    const prompt = isMixed
      ? resolveMedia(request.prompt, context, ensureWanted)
      : resolvePrompt(request.prompt, context, ensureWanted)
    let arrival = this.#arriving.get(id)
    if (prompt instanceof Promise && arrival === undefined) this.#arriving.set(id, (arrival = {}))
    if (arrival !== undefined) arrival.release = this.adapters.hold(adapters)
    if (!(prompt instanceof Promise)) return admit(prompt)
    return prompt.then((read) => ('tokens' in read ? admit(read.tokens, read.media) : admit(read)))
  }
}

function takesNone(): CllmError {
  return new CllmError('shutting_down', 'The engine takes no new requests')
}
