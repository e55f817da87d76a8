import type {
  Random,
  EngineClient,
  EngineInfo,
  GenerateEvents,
  TokenizeOptions,
  GenerateRequest,
  SubmitOptions,
  AdapterInfo,
} from '@cllm/core'
import { CllmError, cancelled, defined, takesNone } from '@cllm/core'
import type { Settling } from '../client/wrapping.js'
import type { Channel, FromEngine, ToEngine, EngineCallName } from './channel.js'
import { CallForwarder, callTraits } from './engine-calls.js'
import { EventStreams, requestId } from './event-streams.js'

/**
 * An engine at the other end of a channel, in a child process or elsewhere. When the channel closes,
 * everything in flight fails with `engine_unavailable`, and so do later calls.
 */
export class RemoteEngineClient extends CallForwarder implements EngineClient {
  readonly #streams = new EventStreams()
  readonly #calls = new Map<number, Settling<unknown>>()
  /** Calls of `embed` in flight. */
  readonly #embeddings = new Set<Promise<unknown>>()
  #nextCall = 0
  #isDraining = false
  #closed: CllmError | undefined
  readonly #ready: Promise<EngineInfo>
  /** The current engine's info, which differs from the first one's after a restart. */
  #info: EngineInfo | undefined

  constructor(
    private readonly channel: Channel<ToEngine, FromEngine>,
    private readonly random: Random,
  ) {
    super()
    this.#ready = new Promise((resolve, reject) => {
      channel.onMessage((message) => {
        if (message.type === 'events') this.#streams.dispatch(message.events)
        else if (message.type === 'ready') resolve((this.#info = message.info))
        else if (message.type === 'failed') reject(CllmError.deserialize(message.error))
        else if (message.type === 'result' || message.type === 'error') this.#answer(message)
      })
      channel.onClose((reason) => reject(this.#close(reason)))
    })
    // Callers await `ready`; without any, its rejection must not end the process.
    this.#ready.catch(() => {})
  }

  /** Resolves when the engine can take requests; rejects when it could not start. */
  async ready(): Promise<EngineInfo> {
    return await this.#ready
  }

  submit(request: GenerateRequest, options: SubmitOptions = {}): GenerateEvents {
    const id = request.id ?? requestId(this.random)
    return this.#streams.open(id, options.signal, {
      submit: () => {
        if (this.#closed !== undefined) throw this.#closed
        if (this.#isDraining) throw takesNone()
        this.channel.send({ type: 'submit', id, request })
      },
      cancel: (reason) => this.cancel(id, reason),
    })
  }

  cancel(id: string, reason?: string): void {
    if (this.#closed !== undefined) return
    this.channel.send({ type: 'cancel', id, ...defined({ reason }) })
  }

  /** All requests come through this client: when the last of them has ended, the engine has none. */
  override async drain(): Promise<void> {
    this.#isDraining = true
    await this.#streams.idle()
    while (this.#embeddings.size > 0) await Promise.allSettled(this.#embeddings)
    if (this.#closed !== undefined) throw this.#closed
  }

  override async info(): Promise<EngineInfo> {
    const first = await this.#ready
    return this.#info ?? first
  }

  protected override async forward(name: EngineCallName, values: readonly unknown[]) {
    if (callTraits[name].takesSignal !== true) {
      const answer = await this.#call(name, values)
      if (name === 'loadAdapter' || name === 'unloadAdapter') await this.#noteAdapters()
      return answer
    }
    const [input, { signal, ...others } = {}] = values as [unknown, TokenizeOptions?]
    if (signal?.aborted === true) throw cancelled(signal)
    const call = this.#nextCall
    const isPlain = Object.keys(others).length === 0
    const answer = this.#call(name, isPlain ? [input] : [input, others])
    if (name === 'embed') this.#embeddings.add(answer)
    const onAbort = (): void => this.#leave(call, cancelled(signal))
    signal?.addEventListener('abort', onAbort, { once: true })
    try {
      return await answer
    } finally {
      signal?.removeEventListener('abort', onAbort)
      this.#embeddings.delete(answer)
    }
  }

  /**
   * Updates the adapters in `info`, asking the engine as other clients may have changed them, too. A restarted engine
   * sends its own.
   */
  async #noteAdapters(): Promise<void> {
    const all = (await this.#call('adapters', []).catch(() => {})) as
      | readonly AdapterInfo[]
      | undefined
    if (all === undefined || this.#info === undefined) return
    const { adapters: _, ...info } = this.#info
    this.#info = all.length > 0 ? { ...info, adapters: all } : info
  }

  async #call(name: EngineCallName, values: readonly unknown[]): Promise<unknown> {
    const call = this.#nextCall++
    // JSON would turn an argument that was left out into null.
    const given = values.filter((value) => value !== undefined)
    const answer = new Promise<unknown>((resolve, reject) => {
      this.#calls.set(call, { resolve, reject })
    })
    try {
      if (this.#closed !== undefined) throw this.#closed
      this.channel.send({ type: 'call', call, name, arguments: given })
    } catch (error) {
      this.#calls.delete(call)
      throw error
    }
    return await answer
  }

  #leave(call: number, error: CllmError): void {
    const pending = this.#calls.get(call)
    if (pending === undefined || !this.#calls.delete(call)) return
    this.channel.send({ type: 'leave', call })
    pending.reject(error)
  }

  #answer(message: FromEngine & { readonly type: 'result' | 'error' }): void {
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
