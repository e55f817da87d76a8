import type { EngineClient, EngineDirectory } from '@cllm/core'
import { nameOfOllamaModel } from './ollama-context.js'

/** What a request without a prompt does; resolves, when it is done, with Ollama's word for it. */
export async function loadOrUnload(
  directory: EngineDirectory,
  client: EngineClient,
  {
    model,
    keep_alive: keepAliveMs,
  }: { readonly model: string; readonly keep_alive?: number | undefined },
): Promise<'load' | 'unload'> {
  if (keepAliveMs === 0) {
    // Ollama answers at once, too: what still uses the model ends first.
    void directory.unload(nameOfOllamaModel(directory, model))
    return 'unload'
  }
  await client.info()
  return 'load'
}
