import { CllmError, type EngineClient } from '@cllm/core'
import { mayChangeServer } from '../../../security/authenticate.js'
import type { Call } from '../../../routes/call.js'
import { nameOfOllamaModel } from '../ollama-context.js'

/**
 * Handles a request without a prompt: loads or unloads the model. Resolves with Ollama's reason.
 *
 * @throws `forbidden` when a user's key asks to unload what others may use
 */
export async function loadOrUnload(
  { engines }: Call,
  client: EngineClient,
  {
    model,
    keep_alive: keepAliveMs,
  }: { readonly model: string; readonly keep_alive?: number | undefined },
): Promise<'load' | 'unload'> {
  if (keepAliveMs === 0) {
    if (!mayChangeServer()) {
      throw new CllmError('forbidden', 'keep_alive: unloading a model needs the key of an admin')
    }
    // Like Ollama, answer at once; requests in progress finish before the model is unloaded.
    void engines.unload(nameOfOllamaModel(engines, model))
    return 'unload'
  }
  await client.info()
  return 'load'
}
