import type { Embedding, EngineClient, EngineInfo, Prompt } from '../contracts/engine-client.js'
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
import { checkTokens } from '../engine/check-tokens.js'
import type { Engine } from '../engine/engine.js'
import { collect } from '../engine/in-parts.js'
import type { PluginRegistry } from '../plugin/plugin-registry.js'

/** What can be asked of an engine besides generating. */
export type EngineCalls = Omit<EngineClient, 'submit' | 'cancel' | 'recording'>

/** Answers the calls of clients on the engine itself. */
export class EngineControl implements EngineCalls {
  #closing: Promise<void> | undefined

  constructor(
    private readonly engine: Engine,
    private readonly registry: PluginRegistry,
  ) {}

  /** The tokens of a text. */
  async tokenize(text: string, options?: EncodeOptions): Promise<TokenId[]> {
    const { tokenizer } = this.engine
    const parts = tokenizer.encodeInParts?.(text, options)
    return await collect(parts ?? [tokenizer.encode(text, options)], () => this.#ensureOpen())
  }

  /** The text of tokens. Throws `invalid_token`. */
  async detokenize(tokens: readonly TokenId[]): Promise<string> {
    const { tokenizer } = this.engine
    checkTokens('tokens', tokens, tokenizer)
    return tokenizer.decode(tokens)
  }

  /** The embedding of an input. Throws `unsupported`. */
  async embed(
    input: Prompt,
    { signal }: { readonly signal?: AbortSignal } = {},
  ): Promise<Embedding> {
    return await this.engine.embeddings.embed(input, signal)
  }

  /** A conversation as the model's template writes it. */
  async applyTemplate(
    messages: readonly ChatMessage[],
    options?: ChatRenderOptions,
  ): Promise<RenderedChat> {
    return this.engine.tokenizer.renderChat(messages, options)
  }

  /** What the engine serves. */
  async info(): Promise<EngineInfo> {
    const { infill } = this.engine.tokenizer
    return { ...this.engine.info(), ...(infill === undefined ? {} : { infill }) }
  }

  /** Counters and what is going on now. */
  async statistics(): Promise<EngineStatistics> {
    return this.engine.statistics()
  }

  /** What happened to a request. Throws `request_not_found`. */
  async explain(id: string): Promise<RequestReport> {
    const report = this.engine.explain(id)
    if (report !== undefined) return report
    const message = `There is no request "${id}" under way or among the last that ended`
    throw new CllmError('request_not_found', message, { details: { id } })
  }

  /** The policy in force and those that could be. */
  async getScheduler(): Promise<SchedulerInfo> {
    const { policy, fallback } = this.engine.scheduler()
    const { name, options = {} } = policy
    const available = this.registry.policies()
    return { policy: name, options, available, ...(fallback === undefined ? {} : { fallback }) }
  }

  /** Swaps the policy. Throws `invalid_policy`. */
  async setScheduler(
    policy: string,
    options: Readonly<Record<string, unknown>> = {},
  ): Promise<SchedulerInfo> {
    this.engine.setPolicy(this.registry.createPolicy(policy, options))
    return await this.getScheduler()
  }

  async drain(): Promise<void> {
    await this.engine.drain()
  }

  async close(): Promise<void> {
    this.#closing ??= this.#close()
    await this.#closing
  }

  #ensureOpen(): void {
    if (this.#closing === undefined) return
    throw new CllmError('shutting_down', 'The engine is shutting down')
  }

  async #close(): Promise<void> {
    await this.engine.close()
    await this.engine.embeddings.close(
      new CllmError('shutting_down', 'The engine is shutting down'),
    )
    await this.engine.backend.dispose()
  }
}

/** The names of the calls, for those who pass them on. */
export const engineCalls = [
  'tokenize',
  'detokenize',
  'embed',
  'applyTemplate',
  'info',
  'statistics',
  'explain',
  'getScheduler',
  'setScheduler',
  'drain',
  'close',
] as const satisfies readonly (keyof EngineCalls)[]

/** The name of a call. */
export type EngineCallName = (typeof engineCalls)[number]

/** Throws `internal` for what is not a call. */
export function assertEngineCall(name: string): asserts name is EngineCallName {
  if ((engineCalls as readonly string[]).includes(name)) return
  throw new CllmError(
    'internal',
    `Expected one of ${engineCalls.join(', ')}, instead got "${name}"`,
  )
}
