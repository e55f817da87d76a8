import { CllmError, type EngineClient } from '@cllm/core'
import { mayChangeServer } from '../../../security/request-scope.js'
import { nameOfOllamaModel, type OllamaContext } from '../ollama-context.js'

/**
 * Handles a request without a prompt: loads or unloads the model. Resolves with Ollama's reason.
 *
 * @throws `forbidden` when a user's key asks to unload what others may use
 */
export async function loadOrUnload(
  { directory }: Pick<OllamaContext, 'directory'>,
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
    void directory.unload(nameOfOllamaModel(directory, model))
    return 'unload'
  }
  await client.info()
  return 'load'
}
