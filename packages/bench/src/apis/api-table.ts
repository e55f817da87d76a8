import type { Api } from './api.js'
import { cllmApi } from './cllm.js'
import { llamaServerApi } from './llama-server.js'
import { ollamaApi } from './ollama.js'
import { openaiChatApi, openaiCompletionsApi } from './openai.js'

/** The APIs that `--api` accepts, by name. */
export const apis: ReadonlyMap<string, Api> = new Map(
  [cllmApi, openaiCompletionsApi, openaiChatApi, ollamaApi, llamaServerApi].map((api) => [
    api.name,
    api,
  ]),
)
