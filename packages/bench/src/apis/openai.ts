import type { Usage } from '../metrics/run-record.js'
import {
  errorMessage,
  numberOf,
  textOf,
  usageOf,
  type Api,
  type ApiEvent,
  type Ask,
} from './api.js'

const common = ({ model, maxTokens, temperature, ignoreEos }: Ask) => ({
  ...(model === undefined ? {} : { model }),
  max_tokens: maxTokens,
  temperature,
  stream: true,
  stream_options: { include_usage: true },
  // Not part of OpenAI's API; vLLM, SGLang, llama-server and cLLM support it.
  ...(ignoreEos ? { ignore_eos: true } : {}),
})

/** OpenAI's `POST /v1/completions`. */
export const openaiCompletionsApi: Api = {
  name: 'openai-completions',
  path: '/v1/completions',
  framing: 'sse',
  needsModel: true,
  body: (ask) => ({ prompt: textOf(ask), ...common(ask) }),
  read: (event) => readChunk(event, (choice) => choice.text),
}

/** OpenAI's `POST /v1/chat/completions`. */
export const openaiChatApi: Api = {
  name: 'openai-chat',
  path: '/v1/chat/completions',
  framing: 'sse',
  needsModel: true,
  body: (ask) => ({ messages: messagesOf(ask), ...common(ask) }),
  // Ollama has an empty `content` beside its reasoning.
  read: (event) =>
    readChunk(event, ({ delta }) => delta?.content || delta?.reasoning_content || delta?.reasoning),
}

function messagesOf({ prompt, history = [] }: Ask) {
  return [
    ...history.flatMap(({ question, answer }) => [
      { role: 'user', content: question },
      { role: 'assistant', content: answer },
    ]),
    { role: 'user', content: prompt },
  ]
}

interface Choice {
  readonly text?: string
  readonly delta?: {
    readonly content?: string | null
    readonly reasoning_content?: string
    readonly reasoning?: string
  }
}

function readChunk(
  event: Readonly<Record<string, unknown>>,
  read: (choice: Choice) => string | null | undefined,
): ApiEvent | undefined {
  if (event.error !== undefined) return { error: errorMessage(event.error) }
  if (!Array.isArray(event.choices)) return undefined
  const [choice] = event.choices as Choice[]
  const text = choice === undefined ? undefined : (read(choice) ?? undefined)
  const usage = readUsage(event.usage)
  return {
    // The first chunk of a chat has a role and no text: no token.
    ...(text === undefined || text === '' ? {} : { text, tokens: 1 }),
    ...(usage === undefined ? {} : { usage }),
  }
}

function readUsage(value: unknown): Usage | undefined {
  if (typeof value !== 'object' || value === null) return undefined
  const usage = value as Record<string, unknown>
  const details = usage.prompt_tokens_details as Record<string, unknown> | null | undefined
  return usageOf({
    promptTokens: numberOf(usage.prompt_tokens),
    generatedTokens: numberOf(usage.completion_tokens),
    cachedTokens: numberOf(details?.cached_tokens),
  })
}
