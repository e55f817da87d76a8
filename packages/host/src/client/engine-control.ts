import {
  type PartToken,
  type EmbedOptions,
  type Embedding,
  type EngineCalls,
  type EngineInfo,
  type TokenizeOptions,
  type Prompt,
  type EngineActivity,
  type EngineStatistics,
  type RequestReport,
  type AdapterInfo,
  type AdapterSource,
  type CachedState,
  type SlotAction,
  type SlotActionResult,
  type SlotId,
  type ProgramReport,
  type TenantService,
  type PolicySetting,
  type SchedulerInfo,
  type ChatMessage,
  type ChatRenderOptions,
  type RenderedChat,
  type TokenId,
  type Tokenizer,
  type Engine,
  type PluginRegistry,
  CllmError,
  checkTokens,
  hasMedia,
  withStableBeginning,
  InputContext,
  longText,
  resolveMedia,
  PartQueue,
  defined,
  cancelled,
  shuttingDown,
  ACTIVITY,
  ADAPTERS,
  ADMISSION,
  EMBEDDINGS,
  PROGRAMS,
  SLOT_ACTIONS,
  TOKENIZER,
  type Random,
  type EngineClient,
  type GenerateEvents,
  type GenerateRequest,
  type SubmitOptions,
} from '@cllm/core'
import { EventStreams, requestId } from '../remote/event-streams.js'

/** Answers the calls of clients on the engine itself. */
export class EngineControl implements EngineCalls {
  #closing: Promise<void> | undefined
  readonly #closed = new AbortController()
  /** Conversations with images that are rendered. */
  #rendering = 0

  constructor(
    protected readonly engine: Engine,
    private readonly registry: PluginRegistry,
  ) {}

  /** The tokens of a text. */
  async tokenize(text: string, { signal, ...options }: TokenizeOptions = {}): Promise<TokenId[]> {
    const tokenizer = this.#get(TOKENIZER)
    const ensureWanted = () => {
      this.#ensureOpen()
      if (signal?.aborted === true) throw cancelled(signal)
    }
    ensureWanted()
    const inParts = text.length > longText ? tokenizer.encodeInParts?.(text, options) : undefined
    return inParts === undefined
      ? tokenizer.encode(text, options)
      : await this.#get(PartQueue).join(inParts, ensureWanted)
  }

  /** The text of tokens. Throws `invalid_token`. */
  async detokenize(tokens: readonly TokenId[]): Promise<string> {
    const tokenizer = this.#get(TOKENIZER)
    checkTokens('tokens', tokens, tokenizer)
    return tokenizer.decode(tokens)
  }

  /** The text or the bytes of each token. Throws `invalid_token`. */
  async pieces(tokens: readonly TokenId[]): Promise<(string | number[])[]> {
    const tokenizer = this.#get(TOKENIZER)
    checkTokens('tokens', tokens, tokenizer)
    return tokens.map((token) => pieceOf(tokenizer, token))
  }

  /** The embedding of an input. Throws `unsupported`. */
  async embed(input: Prompt, options?: EmbedOptions): Promise<Embedding> {
    return await this.#get(EMBEDDINGS).embed(input, options)
  }

  /** A conversation as the model's template writes it. */
  async applyTemplate(
    given: readonly ChatMessage[],
    { tenant, ...options }: ChatRenderOptions & { readonly tenant?: string } = {},
  ): Promise<RenderedChat> {
    const tokenizer = this.#get(TOKENIZER)
    const context = this.#get(InputContext)
    const { volatileLines } = context.options
    const { messages } = withStableBeginning({ messages: given }, volatileLines).prompt
    const prompt = { messages, template: options }
    if (context.backend.media !== undefined && hasMedia(prompt)) {
      const now = context.clock.now()
      this.#get(ADMISSION).checkCount(this.#rendering, now)
      // One of its own, as more than ten may listen to it.
      const signal = AbortSignal.any([this.#closed.signal])
      const owner = context.ownerOf('', { prompt, ...defined({ tenant }) }, now, signal)
      const scope = context.options.isolateTenants ? tenant : ''
      this.#rendering++
      try {
        const { text, tokens } = await resolveMedia(prompt, context, { ...owner, scope })
        return { text, tokens }
      } finally {
        this.#rendering--
      }
    }
    const chat = tokenizer.renderChatInParts?.(messages, options)
    if (chat === undefined) return tokenizer.renderChat(messages, options)
    const ids = await this.#get(PartQueue).join(chat.tokens, () => this.#ensureOpen())
    return { text: chat.text, tokens: ids }
  }

  /** What the engine serves. */
  async info(): Promise<EngineInfo> {
    return this.engine.info()
  }

  /** Counters and what is going on now. */
  async statistics(): Promise<EngineStatistics> {
    return this.engine.statistics()
  }

  /** What happened since the frame of this number, and what goes on now. */
  async activity(cursor?: number): Promise<EngineActivity> {
    this.#ensureOpen()
    return this.#get(ACTIVITY).look(cursor)
  }

  /** What happened to a request. Throws `request_not_found`. */
  async explain(id: string): Promise<RequestReport> {
    const report = this.engine.explain(id)
    if (report !== undefined) return report
    const message = `There is no request "${id}" under way or among the last that ended`
    throw new CllmError('request_not_found', message, { details: { id } })
  }

  /** The saved states. */
  async cache(action: 'list' | 'drop'): Promise<readonly CachedState[]> {
    return this.#get(SLOT_ACTIONS).cache(action)
  }

  /** Saves, restores or erases an idle slot. */
  async slotAction(slot: SlotId, action: SlotAction): Promise<SlotActionResult> {
    return await this.#get(SLOT_ACTIONS).run(slot, action)
  }

  /** The programs whose requests came lately. */
  async programs(): Promise<readonly ProgramReport[]> {
    return this.#get(PROGRAMS).report()
  }

  /** The adapters that requests can name. */
  async adapters(): Promise<readonly AdapterInfo[]> {
    return this.#get(ADAPTERS).list()
  }

  /** Loads an adapter. */
  async loadAdapter(source: AdapterSource): Promise<AdapterInfo> {
    return await this.#get(ADAPTERS).load(source)
  }

  /** Takes an adapter away. Throws `model_not_found`. */
  async unloadAdapter(name: string): Promise<void> {
    this.#get(ADAPTERS).unload(name)
  }

  /** The active policy and the available ones. */
  async getScheduler(): Promise<SchedulerInfo> {
    const { policy, fallback } = this.engine.scheduler()
    const { name, options = {} } = policy
    const available = this.registry.policies()
    return { policy: name, options, available, ...defined({ fallback }) }
  }

  /** Swaps the policy. Throws `invalid_policy`. */
  async setScheduler(
    policy: string,
    options: Readonly<Record<string, unknown>> = {},
  ): Promise<PolicySetting> {
    const made = this.registry.createPolicy(policy, options)
    this.engine.setPolicy(made)
    return { policy: made.name, options: made.options ?? {} }
  }

  /** Passes on what other engines did for tenants. */
  async noteService(services: readonly TenantService[]): Promise<void> {
    this.engine.scheduler().policy.onServedElsewhere?.(services)
  }

  async drain(): Promise<void> {
    await this.engine.drain()
  }

  async close(): Promise<void> {
    this.#closed.abort(shuttingDown())
    const { engine } = this
    await (this.#closing ??= engine.close().then(() => engine.backend.dispose()))
  }

  #get<Feature>(feature: PartToken<Feature>): Feature {
    return this.engine.features.get(feature)
  }

  #ensureOpen(): void {
    this.#closed.signal.throwIfAborted()
  }
}

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

function pieceOf(tokenizer: Tokenizer, token: TokenId): string | number[] {
  const bytes = tokenizer.bytesOf?.(token)
  if (bytes === undefined) return tokenizer.decode([token])
  try {
    return utf8.decode(bytes)
  } catch {
    return [...bytes]
  }
}

/** An engine in this process. */
export class LocalEngineClient extends EngineControl implements EngineClient {
  readonly #streams = new EventStreams()

  constructor(
    engine: Engine,
    registry: PluginRegistry,
    private readonly random: Random,
  ) {
    super(engine, registry)
    engine.observe({ onEvents: (events) => this.#streams.dispatch(events) })
  }

  submit(request: GenerateRequest, options: SubmitOptions = {}): GenerateEvents {
    const id = request.id ?? requestId(this.random)
    return this.#streams.open(id, options.signal, {
      submit: () => this.engine.submit(id, request),
      cancel: (reason) => this.engine.cancel(id, reason),
    })
  }

  cancel(id: string, reason?: string): void {
    this.engine.cancel(id, reason)
  }
}
