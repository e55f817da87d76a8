import { defined } from '@cllm/core'
import { errorMessage, numberOf, textOf, usageOf, type Api } from './api.js'

/** llama.cpp's server: `POST /completion`. */
export const llamaServerApi: Api = {
  name: 'llama-server',
  path: '/completion',
  framing: 'sse',
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
    if (event.error !== undefined) return { error: errorMessage(event.error) }
    if (typeof event.content !== 'string') return undefined
    const tokens = Array.isArray(event.tokens) ? event.tokens.length : 1
    if (event.stop !== true) return { text: event.content, tokens }
    const timings = event.timings as { readonly cache_n?: unknown } | undefined
    const usage = usageOf({
      promptTokens: numberOf(event.tokens_evaluated),
      generatedTokens: numberOf(event.tokens_predicted),
      cachedTokens: numberOf(timings?.cache_n),
    })
    return { text: event.content, tokens: event.content === '' ? 0 : tokens, done: true, usage }
  },
}
