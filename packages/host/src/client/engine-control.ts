import {
  type Engine,
  type EngineCalls,
  type EngineClient,
  type GenerateEvents,
  type GenerateRequest,
  type PartToken,
  type PluginRegistry,
  type Prompt,
  type Random,
  type SubmitOptions,
  type TokenId,
  type Tokenizer,
  ACTIVITY,
  ADAPTERS,
  ADMISSION,
  CllmError,
  EMBEDDINGS,
  InputContext,
  PROGRAMS,
  PartQueue,
  SLOT_ACTIONS,
  TOKENIZER,
  attempt,
  cancelled,
  checkMessageCount,
  checkTokens,
  defined,
  hasMedia,
  longText,
  resolveMedia,
  shuttingDown,
  withStableBeginning,
} from '@cllm/core'
import { CallForwarder } from '../remote/engine-calls.js'
import { EventStreams, requestId } from '../remote/event-streams.js'

/** Implements the calls of clients directly on an engine. */
export function controlOf(engine: Engine, registry: PluginRegistry): EngineCalls {
  let closing: Promise<void> | undefined
  const closed = new AbortController()
  /** The number of conversations with images that are being rendered. */
  let rendering = 0
  const get = <Feature>(feature: PartToken<Feature>): Feature => engine.features.get(feature)
  const ensureOpen = (): void => closed.signal.throwIfAborted()

  const renderMedia = async (prompt: Prompt, tenant: string | undefined) => {
    const context = get(InputContext)
    const now = context.clock.now()
    get(ADMISSION).checkCount(rendering, now)
    // A signal of its own: more than ten listeners may be added to it, of which Node would warn.
    const signal = AbortSignal.any([closed.signal])
    const owner = context.ownerOf('', { prompt, ...defined({ tenant }) }, now, signal)
    const scope = context.options.isolateTenants ? tenant : ''
    rendering++
    try {
      return (await resolveMedia(prompt, context, { ...owner, scope })).tokens
    } finally {
      rendering--
    }
  }

  return {
    async tokenize(text, { signal, ...options } = {}) {
      const tokenizer = get(TOKENIZER)
      const ensureWanted = () => {
        ensureOpen()
        if (signal?.aborted === true) throw cancelled(signal)
      }
      ensureWanted()
      const inParts = text.length > longText ? tokenizer.encodeInParts?.(text, options) : undefined
      return inParts === undefined
        ? tokenizer.encode(text, options)
        : await get(PartQueue).join(inParts, ensureWanted)
    },
    async detokenize(tokens) {
      const tokenizer = get(TOKENIZER)
      checkTokens('tokens', tokens, tokenizer)
      return tokenizer.decode(tokens)
    },
    async pieces(tokens) {
      const tokenizer = get(TOKENIZER)
      checkTokens('tokens', tokens, tokenizer)
      return tokens.map((token) => pieceOf(tokenizer, token))
    },
    embed: async (input, options) => await get(EMBEDDINGS).embed(input, options),
    async applyTemplate(given, { tenant, ...options } = {}) {
      const tokenizer = get(TOKENIZER)
      const { backend, options: settings } = get(InputContext)
      const { messages } = withStableBeginning({ messages: given }, settings.volatileLines).prompt
      const prompt = { messages, template: options }
      checkMessageCount(messages, backend)
      // Refuses a prompt that is too long before it is rendered as a text, too.
      const isMixed = backend.media !== undefined && hasMedia(prompt)
      const mixed = isMixed ? await renderMedia(prompt, tenant) : undefined
      const chat = tokenizer.renderChatInParts?.(messages, options)
      if (chat === undefined)
        return { ...tokenizer.renderChat(messages, options), ...defined({ tokens: mixed }) }
      return {
        text: chat.text,
        tokens: mixed ?? (await get(PartQueue).join(chat.tokens, ensureOpen)),
      }
    },
    info: async () => engine.info(),
    statistics: async () => engine.statistics(),
    async activity(cursor) {
      ensureOpen()
      return get(ACTIVITY).look(cursor)
    },
    async explain(id) {
      const report = engine.explain(id)
      if (report !== undefined) return report
      const message = `There is no request "${id}" under way or among the last that ended`
      throw new CllmError('request_not_found', message, { details: { id } })
    },
    cache: async (action) => get(SLOT_ACTIONS).cache(action),
    slotAction: async (slot, action) => await get(SLOT_ACTIONS).run(slot, action),
    programs: async () => get(PROGRAMS).report(),
    adapters: async () => get(ADAPTERS).list(),
    loadAdapter: async (source) => await get(ADAPTERS).load(source),
    unloadAdapter: async (name) => get(ADAPTERS).unload(name),
    async getScheduler() {
      const { policy, fallback } = engine.scheduler()
      const { name, options = {} } = policy
      return { policy: name, options, available: registry.policies(), ...defined({ fallback }) }
    },
    async setScheduler(policy, options = {}) {
      const made = registry.createPolicy(policy, options)
      engine.setPolicy(made)
      return { policy: made.name, options: made.options ?? {} }
    },
    async noteService(services) {
      engine.scheduler().policy.onServedElsewhere?.(services)
    },
    drain: async () => await engine.drain(),
    async close() {
      closed.abort(shuttingDown())
      await (closing ??= engine.close().then(() => engine.backend.dispose()))
    },
  }
}

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

function pieceOf(tokenizer: Tokenizer, token: TokenId): string | number[] {
  const shown = tokenizer.controlText?.(token) ?? ''
  if (shown !== '') return shown
  const bytes = tokenizer.bytesOf?.(token)
  if (bytes === undefined) return tokenizer.decode([token])
  return attempt(() => utf8.decode(bytes)) ?? [...bytes]
}

/** An engine in this process. */
export class LocalEngineClient extends CallForwarder implements EngineClient {
  readonly #streams = new EventStreams()
  readonly #control: EngineCalls

  constructor(
    private readonly engine: Engine,
    registry: PluginRegistry,
    private readonly random: Random,
  ) {
    super()
    this.#control = controlOf(engine, registry)
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

  protected override async forward(name: keyof EngineCalls, values: readonly unknown[]) {
    return await (this.#control[name] as (...given: readonly unknown[]) => Promise<unknown>)(
      ...values,
    )
  }
}
