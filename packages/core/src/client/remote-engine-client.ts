import type { Random } from '../contracts/clock.js'
import type {
  Embedding,
  EngineClient,
  EngineInfo,
  GenerateEvent,
  GenerateRequest,
  Prompt,
} from '../contracts/engine-client.js'
import type { EngineStatistics } from '../contracts/engine-statistics.js'
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
import type { Channel, FromEngine, ToEngine } from './channel.js'
import type { EngineCallName } from './engine-control.js'
import { EventStreams } from './event-streams.js'
import { requestId } from './request-id.js'

interface PendingCall {
  readonly resolve: (value: unknown) => void
  readonly reject: (error: CllmError) => void
}

/**
 * An engine at the other end of a channel, in a child process or elsewhere. When the channel closes,
 * everything under way fails with `engine_unavailable`, and so does what is asked later.
 */
export class RemoteEngineClient implements EngineClient {
  readonly #streams = new EventStreams()
  readonly #calls = new Map<number, PendingCall>()
  #nextCall = 0
  #closed: CllmError | undefined
  readonly #ready: Promise<EngineInfo>

  constructor(
    private readonly channel: Channel<ToEngine, FromEngine>,
    private readonly random: Random,
  ) {
    this.#ready = new Promise((resolve, reject) => {
      channel.onMessage((message) => {
        if (message.type === 'ready') resolve(message.info)
        else if (message.type === 'failed') reject(CllmError.deserialize(message.error))
        else if (message.type !== 'step') this.#receive(message)
      })
      channel.onClose((reason) => reject(this.#close(reason)))
    })
    // Whoever needs the engine awaits `ready`; nobody doing so is no reason to end the process.
    this.#ready.catch(() => {})
  }

  /** Resolves when the engine can take requests; rejects when it could not start. */
  async ready(): Promise<EngineInfo> {
    return await this.#ready
  }

  submit(
    request: GenerateRequest,
    options: { readonly signal?: AbortSignal } = {},
  ): AsyncIterableIterator<GenerateEvent> {
    const id = request.id ?? requestId(this.random)
    return this.#streams.open(id, options.signal, {
      submit: () => this.#send({ type: 'submit', id, request }),
      cancel: (reason) => this.cancel(id, reason),
    })
  }

  cancel(id: string, reason?: string): void {
    if (this.#closed !== undefined) return
    this.channel.send({ type: 'cancel', id, ...(reason === undefined ? {} : { reason }) })
  }

  async tokenize(text: string, options?: EncodeOptions): Promise<TokenId[]> {
    return await this.#call<TokenId[]>('tokenize', text, options)
  }

  async detokenize(tokens: readonly TokenId[]): Promise<string> {
    return await this.#call<string>('detokenize', tokens)
  }

  async embed(
    input: Prompt,
    { signal }: { readonly signal?: AbortSignal } = {},
  ): Promise<Embedding> {
    if (signal?.aborted === true) throw cancelled()
    const call = this.#nextCall
    const answer = this.#call<Embedding>('embed', input)
    const onAbort = (): void => this.#leave(call)
    signal?.addEventListener('abort', onAbort, { once: true })
    try {
      return await answer
    } finally {
      signal?.removeEventListener('abort', onAbort)
    }
  }

  async applyTemplate(
    messages: readonly ChatMessage[],
    options?: ChatRenderOptions,
  ): Promise<RenderedChat> {
    return await this.#call<RenderedChat>('applyTemplate', messages, options)
  }

  async info(): Promise<EngineInfo> {
    return await this.#ready
  }

  async statistics(): Promise<EngineStatistics> {
    return await this.#call<EngineStatistics>('statistics')
  }

  async explain(id: string): Promise<RequestReport> {
    return await this.#call<RequestReport>('explain', id)
  }

  async getScheduler(): Promise<SchedulerInfo> {
    return await this.#call<SchedulerInfo>('getScheduler')
  }

  async setScheduler(
    policy: string,
    options?: Readonly<Record<string, unknown>>,
  ): Promise<SchedulerInfo> {
    return await this.#call<SchedulerInfo>('setScheduler', policy, options)
  }

  async drain(): Promise<void> {
    await this.#call('drain')
  }

  async close(): Promise<void> {
    await this.#call('close')
  }

  async #call<T>(name: EngineCallName, ...values: readonly unknown[]): Promise<T> {
    const call = this.#nextCall++
    // JSON would turn an argument that was left out into null.
    const given = values.filter((value) => value !== undefined)
    const answer = new Promise<unknown>((resolve, reject) => {
      this.#calls.set(call, { resolve, reject })
    })
    try {
      this.#send({ type: 'call', call, name, arguments: given })
    } catch (error) {
      this.#calls.delete(call)
      throw error
    }
    return (await answer) as T
  }

  #leave(call: number): void {
    const pending = this.#calls.get(call)
    if (pending === undefined || !this.#calls.delete(call)) return
    this.channel.send({ type: 'leave', call })
    pending.reject(cancelled())
  }

  #send(message: ToEngine): void {
    if (this.#closed !== undefined) throw this.#closed
    this.channel.send(message)
  }

  #receive(message: Exclude<FromEngine, { type: 'ready' | 'failed' | 'step' }>): void {
    if (message.type === 'events') {
      this.#streams.dispatch(message.events)
      return
    }
    const pending = this.#calls.get(message.call)
    this.#calls.delete(message.call)
    if (message.type === 'result') pending?.resolve(message.value)
    else pending?.reject(CllmError.deserialize(message.error))
  }

  #close(reason: string): CllmError {
    const error = new CllmError('engine_unavailable', `The engine is gone: ${reason}`)
    this.#closed = error
    this.#streams.failAll(error)
    for (const call of this.#calls.values()) call.reject(error)
    this.#calls.clear()
    return error
  }
}

const cancelled = (): CllmError => new CllmError('cancelled', 'The request was cancelled')
