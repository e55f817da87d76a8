import type { Clock } from '../contracts/clock.js'
import type {
  Embedding,
  EngineClient,
  EngineInfo,
  GenerateEvent,
  GenerateRequest,
  Prompt,
} from '../contracts/engine-client.js'
import type { OpenOptions } from '../contracts/engine-directory.js'
import type { EngineStatistics } from '../contracts/engine-statistics.js'
import type { Recording } from '../contracts/recording.js'
import type { RequestReport } from '../contracts/request-report.js'
import type { SchedulerInfo } from '../contracts/scheduler-info.js'
import type {
  ChatMessage,
  ChatRenderOptions,
  EncodeOptions,
  RenderedChat,
  TokenId,
} from '../contracts/tokenizer.js'
import { CllmError } from '../errors/cllm-error.js'
import { lateStream, withEnd } from './late-stream.js'
import type { ModelKeeper } from './model-keeper.js'
import type { Hold, PooledModel } from './pooled-model.js'

const nothing = (): void => {}

/** The engine of a model that need not be in memory: what is asked of it waits until it is. */
export class PooledEngineClient implements EngineClient {
  /** What is held until the signal fires. */
  #held: Promise<Hold> | undefined
  #heldNow: Hold | undefined

  constructor(
    private readonly keeper: ModelKeeper,
    private readonly model: PooledModel,
    private readonly options: OpenOptions,
    private readonly clock: Clock,
  ) {}

  submit(
    request: GenerateRequest,
    options: { readonly signal?: AbortSignal } = {},
  ): AsyncIterableIterator<GenerateEvent> {
    const hold = this.#holdNow()
    if (hold === undefined) return this.#submitLate(request, options.signal)
    return submitTo(hold, request, options)
  }

  cancel(id: string, reason?: string): void {
    const error = reason === undefined ? undefined : new CllmError('cancelled', reason)
    this.model.late.get(id)?.abort(error)
    this.model.loaded?.client.cancel(id, reason)
  }

  async tokenize(text: string, options?: EncodeOptions): Promise<TokenId[]> {
    return await this.#ask((engine) => engine.tokenize(text, options))
  }

  async detokenize(tokens: readonly TokenId[]): Promise<string> {
    return await this.#ask((engine) => engine.detokenize(tokens))
  }

  async embed(input: Prompt): Promise<Embedding> {
    return await this.#ask((engine) => engine.embed(input))
  }

  async applyTemplate(
    messages: readonly ChatMessage[],
    options?: ChatRenderOptions,
  ): Promise<RenderedChat> {
    return await this.#ask((engine) => engine.applyTemplate(messages, options))
  }

  async info(): Promise<EngineInfo> {
    return await this.#ask((engine) => engine.info())
  }

  async statistics(): Promise<EngineStatistics> {
    return await this.#ask((engine) => engine.statistics())
  }

  async explain(id: string): Promise<RequestReport> {
    return await this.#ask((engine) => engine.explain(id))
  }

  async getScheduler(): Promise<SchedulerInfo> {
    return await this.#ask((engine) => engine.getScheduler())
  }

  async setScheduler(
    policy: string,
    options?: Readonly<Record<string, unknown>>,
  ): Promise<SchedulerInfo> {
    return await this.#ask((engine) => engine.setScheduler(policy, options))
  }

  async recording(): Promise<Recording> {
    return await this.#ask(async (engine) => {
      const recording = await engine.recording?.()
      if (recording !== undefined) return recording
      throw new CllmError('unsupported', `The engine of ${this.model.name} has no flight recorder`)
    })
  }

  async drain(): Promise<void> {
    await this.model.loaded?.client.drain()
  }

  async close(): Promise<void> {
    await this.model.loaded?.client.close()
  }

  async #ask<T>(question: (engine: EngineClient) => Promise<T>): Promise<T> {
    const hold = this.#holdNow() ?? (await this.#hold())
    try {
      return await question(hold.client)
    } finally {
      hold.release()
    }
  }

  #holdNow(): Hold | undefined {
    const { until, keepAliveMs } = this.options
    if (this.#heldNow !== undefined || until?.aborted === true) return this.#heldNow
    const hold = this.keeper.holdNow(this.model, keepAliveMs)
    return hold === undefined || until === undefined ? hold : this.#keep(hold, until)
  }

  async #hold(signal?: AbortSignal): Promise<Hold> {
    const { until, keepAliveMs } = this.options
    if (until === undefined) return await this.keeper.hold(this.model, { keepAliveMs, signal })
    this.#held ??= this.keeper
      .hold(this.model, { keepAliveMs, signal: until })
      .then((hold) => this.#keep(hold, until))
    return await this.#held
  }

  #keep(hold: Hold, until: AbortSignal): Hold {
    const release = (): void => {
      this.#held = this.#heldNow = undefined
      hold.release()
    }
    const kept = { client: hold.client, release: nothing }
    this.#heldNow = kept
    if (until.aborted) release()
    else until.addEventListener('abort', release, { once: true })
    return kept
  }

  #submitLate(
    request: GenerateRequest,
    signal: AbortSignal | undefined,
  ): AsyncIterableIterator<GenerateEvent> {
    const { clock, model } = this
    const arrival = clock.now()
    const { id, timeoutMs = Infinity } = request
    const leaving = new AbortController()
    const timeout = (): void =>
      leaving.abort(new CllmError('timeout', 'The model was not loaded within the time limit'))
    const cancelTimer =
      timeoutMs === Infinity ? nothing : clock.at(arrival + timeoutMs, () => timeout())
    if (id !== undefined) model.late.set(id, leaving)
    const either = signal === undefined ? leaving.signal : AbortSignal.any([signal, leaving.signal])
    const start = async () => {
      try {
        const hold = await unlessAborted(this.#hold(either), either)
        const elapsedMs = clock.now() - arrival + (request.continued?.elapsedMs ?? 0)
        const continued = { tokens: [], ...request.continued, elapsedMs }
        return submitTo(hold, { ...request, continued }, signal === undefined ? {} : { signal })
      } finally {
        cancelTimer()
        if (id !== undefined) model.late.delete(id)
      }
    }
    return lateStream(start(), () => leaving.abort())
  }
}

function submitTo(
  { client, release }: Hold,
  request: GenerateRequest,
  options: { readonly signal?: AbortSignal },
): AsyncIterableIterator<GenerateEvent> {
  const events = client.submit(request, options)
  return release === nothing ? events : withEnd(events, release)
}

/** The promise, or the signal's failure if that comes first. */
async function unlessAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return await new Promise((resolve, reject) => {
    const onAbort = (): void => {
      const reason: unknown = signal.reason
      const cancelled = new CllmError('cancelled', 'The request was cancelled')
      reject(CllmError.isInstance(reason) ? reason : cancelled)
    }
    if (signal.aborted) onAbort()
    signal.addEventListener('abort', onAbort, { once: true })
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort))
  })
}
