import { defined } from '@cllm/core'
import type { Usage } from '../metrics/run-record.js'

type Json = Readonly<Record<string, unknown>>

/** A call of a tool, as OpenAI writes it. */
export interface ToolCall {
  id: string
  readonly type: 'function'
  readonly function: { name: string; arguments: string }
}

/** A whole call, or the beginning of one. */
export const toolCall = (id: string, name: string, given: string): ToolCall => {
  return { id, type: 'function', function: { name, arguments: given } }
}

/** An earlier turn of a conversation: a question and its answer. */
export interface Turn {
  readonly question: string
  readonly answer: string
  /** What was thought before it; empty: nothing, or it is not said again. */
  readonly thoughts?: string
  /** What it calls: the next question is the result. */
  readonly calls?: readonly ToolCall[]
}

/** A request, independent of the server's API. */
export interface Ask {
  readonly prompt: string
  /** The earlier turns, oldest first. */
  readonly history?: readonly Turn[]
  /** The names of the tools that it offers. Only OpenAI's chats have them, and calls of tools. */
  readonly tools?: readonly string[]
  readonly maxTokens: number
  readonly model?: string
  /** Empty: none. */
  readonly tenant: string
  readonly temperature: number
  /** Generate up to `maxTokens` even if the model would stop earlier. */
  readonly ignoreEos: boolean
  /** How soon the next request is to be expected, in milliseconds; 0: none is. Only cLLM's API has it. */
  readonly retainMs?: number
  /** The session of a program, in a header that servers may ignore. */
  readonly session?: string
}

/** A piece of a call, of which there may be several in an answer. */
export interface CallPiece {
  readonly index?: number
  readonly id?: string
  readonly function?: Partial<ToolCall['function']>
}

/** The content of one event of a stream. */
export interface ApiEvent {
  /** New text, possibly empty. */
  readonly text?: string
  /** Whether the text is thought, not said. */
  readonly isThought?: boolean
  /** Pieces of calls of tools. */
  readonly calls?: readonly CallPiece[]
  /** Tokens in this event. */
  readonly tokens?: number
  readonly usage?: Usage
  /** True in the event that ends a stream. */
  readonly done?: boolean
}

/** The API of one kind of server: how to request a stream and read its events. */
export interface Api {
  readonly name: string
  readonly path: string
  /** A JSON value a line; default: server-sent events. */
  readonly framing?: 'ndjson'
  /** True when a request must name a model. */
  readonly needsModel: boolean
  /** The JSON to post. */
  body(ask: Ask): Json
  /** Reads the JSON of an event that has no error; undefined when it is not an event of this API. */
  read(event: Json): ApiEvent | undefined
}

/** The prompt after the earlier turns, for an API that accepts a single text. An answer stands where it was generated. */
export function textOf({ prompt, history = [] }: Ask): string {
  const said = history.map(({ question, answer }) => `${question}${answer}\n`)
  return [...said, prompt].join('')
}

/** The message in an error of any of the APIs. */
export function errorMessage(error: unknown): string {
  const inner = (error as { message?: unknown } | null)?.message ?? error
  return typeof inner === 'string' ? inner : JSON.stringify(inner)
}

/** The counts among what a server tells of itself. */
function usageOf(prompt: unknown, generated: unknown, cached?: unknown): Usage {
  const count = (value: unknown) => (typeof value === 'number' ? value : undefined)
  const [promptTokens, generatedTokens] = [count(prompt), count(generated)]
  return defined({ promptTokens, generatedTokens, cachedTokens: count(cached) })
}

const sampled = ({ model, maxTokens, temperature, ignoreEos }: Ask) => ({
  ...defined({ model }),
  max_tokens: maxTokens,
  temperature,
  // Not part of OpenAI's API; vLLM, SGLang, llama-server and cLLM support it.
  ...(ignoreEos ? { ignore_eos: true } : {}),
})

/** The native API of cLLM: `POST /generate_stream`. */
export const cllmApi: Api = {
  name: 'cllm',
  path: '/generate_stream',
  needsModel: false,
  body: (ask) => ({
    prompt: textOf(ask),
    ...sampled(ask),
    ...(ask.retainMs !== undefined && { cllm: { retain_s: ask.retainMs / 1000 } }),
    // The counts of the prompt are among them.
    timings: true,
  }),
  read(event) {
    if (event.done === true) {
      const { prompt_tokens: prompt, cached_tokens: cached } = (event.timings ?? {}) as Json
      return { done: true, usage: usageOf(prompt, event.generated_tokens, cached) }
    }
    return typeof event.token === 'string' ? { text: event.token, tokens: 1 } : undefined
  },
}

/** llama.cpp's server: `POST /completion`. */
export const llamaServerApi: Api = {
  name: 'llama-server',
  path: '/completion',
  needsModel: false,
  body: (ask) => ({
    prompt: textOf(ask),
    ...defined({ model: ask.model }),
    n_predict: ask.maxTokens,
    temperature: ask.temperature,
    ignore_eos: ask.ignoreEos,
    stream: true,
    return_tokens: true,
  }),
  read(event) {
    if (typeof event.content !== 'string') return undefined
    const tokens = Array.isArray(event.tokens) ? event.tokens.length : 1
    if (event.stop !== true) return { text: event.content, tokens }
    const { cache_n: cached } = (event.timings ?? {}) as Json
    const usage = usageOf(event.tokens_evaluated, event.tokens_predicted, cached)
    return { text: event.content, tokens: event.content === '' ? 0 : tokens, done: true, usage }
  },
}

/** Ollama's `POST /api/generate`, without the model's template. */
export const ollamaApi: Api = {
  name: 'ollama',
  path: '/api/generate',
  framing: 'ndjson',
  needsModel: true,
  body: (ask) => ({
    model: ask.model,
    prompt: textOf(ask),
    raw: true,
    stream: true,
    options: { num_predict: ask.maxTokens, temperature: ask.temperature },
  }),
  read(event) {
    if (event.done === true) {
      // `context` has the prompt in it and is no count; `eval_count` is what was generated.
      return { done: true, usage: usageOf(event.prompt_eval_count, event.eval_count) }
    }
    if (typeof event.response !== 'string') return undefined
    return { text: event.response, tokens: 1 }
  },
}

const common = (ask: Ask) => ({
  ...sampled(ask),
  stream: true,
  stream_options: { include_usage: true },
})

/** OpenAI's `POST /v1/completions`. */
export const openaiCompletionsApi: Api = {
  name: 'openai-completions',
  path: '/v1/completions',
  needsModel: true,
  body: (ask) => ({ prompt: textOf(ask), ...common(ask) }),
  read: (event) => readChunk(event, (choice) => choice.text),
}

/** OpenAI's `POST /v1/chat/completions`. */
export const openaiChatApi: Api = {
  name: 'openai-chat',
  path: '/v1/chat/completions',
  needsModel: true,
  body: (ask) => ({
    messages: messagesOf(ask),
    ...(ask.tools && { tools: ask.tools.map(toolOf) }),
    ...common(ask),
  }),
  read: (event) => readChunk(event, ({ delta }) => delta?.content),
}

/** What is asked; of several calls the last one's result. */
function asking(content: string, calls: readonly ToolCall[] = []): object[] {
  if (calls.length === 0) return [{ role: 'user', content }]
  return calls.map(({ id }, index) => {
    return { role: 'tool', tool_call_id: id, content: index === calls.length - 1 ? content : '' }
  })
}

function messagesOf({ prompt, history = [] }: Ask) {
  const said = history.flatMap(({ question, answer, thoughts = '', calls = [] }, index) => {
    const own = {
      role: 'assistant',
      content: answer,
      ...(thoughts !== '' && { reasoning_content: thoughts }),
      ...(calls.length > 0 && { tool_calls: calls }),
    }
    return [...asking(question, history[index - 1]?.calls), own]
  })
  return [...said, ...asking(prompt, history.at(-1)?.calls)]
}

function toolOf(name: string) {
  const parameters = { type: 'object', properties: { input: { type: 'string' } } }
  return { type: 'function', function: { name, parameters } }
}

interface Choice {
  readonly text?: string
  readonly delta?: {
    readonly content?: string | null
    readonly reasoning_content?: string
    readonly reasoning?: string
    readonly tool_calls?: readonly CallPiece[] | null
  }
}

function readChunk(
  event: Json,
  read: (choice: Choice) => string | null | undefined,
): ApiEvent | undefined {
  if (!Array.isArray(event.choices)) return undefined
  const [choice = {}] = event.choices as Choice[]
  const delta = choice.delta ?? {}
  const calls = delta.tool_calls
  const said = read(choice)
  // Ollama has an empty `content` beside its reasoning, and the first chunk of a chat has a role and no text: no token.
  const text = said || (delta.reasoning_content ?? delta.reasoning)
  return {
    ...(text ? { text, tokens: 1, isThought: !said } : {}),
    ...(calls?.length ? { calls, tokens: 1 } : {}),
    ...defined({ usage: readUsage(event.usage) }),
  }
}

function readUsage(value: unknown): Usage | undefined {
  if (typeof value !== 'object' || value === null) return undefined
  const usage = value as Json
  const { cached_tokens: cached } = (usage.prompt_tokens_details ?? {}) as Json
  return usageOf(usage.prompt_tokens, usage.completion_tokens, cached)
}

const all = [cllmApi, openaiCompletionsApi, openaiChatApi, ollamaApi, llamaServerApi]

/** The APIs that `--api` accepts, by name. */
export const apis: ReadonlyMap<string, Api> = new Map(all.map((api) => [api.name, api]))
