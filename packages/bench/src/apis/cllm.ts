import { defined } from '@cllm/core'
import { errorMessage, numberOf, textOf, usageOf, type Api } from './api.js'

/** The native API of cLLM: `POST /generate_stream`. */
export const cllmApi: Api = {
  name: 'cllm',
  path: '/generate_stream',
  framing: 'sse',
  needsModel: false,
  body: (ask) => ({
    prompt: textOf(ask),
    ...defined({ model: ask.model }),
    max_tokens: ask.maxTokens,
    temperature: ask.temperature,
    ignore_eos: ask.ignoreEos,
    // The counts of the prompt are among them.
    timings: true,
  }),
  read(event) {
    if (event.error !== undefined) return { error: errorMessage(event.error) }
    if (event.done === true) {
      const timings = (event.timings ?? {}) as Readonly<Record<string, unknown>>
      const usage = usageOf({
        generatedTokens: numberOf(event.generated_tokens),
        promptTokens: numberOf(timings.prompt_tokens),
        cachedTokens: numberOf(timings.cached_tokens),
      })
      return { done: true, usage }
    }
    return typeof event.token === 'string' ? { text: event.token, tokens: 1 } : undefined
  },
}
