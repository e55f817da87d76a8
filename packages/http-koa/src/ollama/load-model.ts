import type { EngineClient, EngineDirectory } from '@cllm/core'
import { nameOfOllamaModel } from './ollama-context.js'

/** Handles a request without a prompt: loads or unloads the model. Resolves with Ollama's reason. */
export async function loadOrUnload(
  directory: EngineDirectory,
  client: EngineClient,
  {
    model,
    keep_alive: keepAliveMs,
  }: { readonly model: string; readonly keep_alive?: number | undefined },
): Promise<'load' | 'unload'> {
  if (keepAliveMs === 0) {
    // Like Ollama, answer at once; requests in progress finish before the model is unloaded.
    void directory.unload(nameOfOllamaModel(directory, model))
    return 'unload'
  }
  await client.info()
  return 'load'
}
