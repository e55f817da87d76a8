import { errorMessage, numberOf, textOf, usageOf, type Api } from './api.js'

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
    if (event.error !== undefined) return { error: errorMessage(event.error) }
    if (event.done === true) {
      // `context` has the prompt in it and is no count; `eval_count` is what was generated.
      const usage = usageOf({
        promptTokens: numberOf(event.prompt_eval_count),
        generatedTokens: numberOf(event.eval_count),
      })
      return { done: true, usage }
    }
    if (typeof event.response !== 'string') return undefined
    return { text: event.response, tokens: 1 }
  },
}
