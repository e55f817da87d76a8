import type { BackendContext, BackendLimits, EngineParts, PluginRegistry } from '@cllm/core'
import type { EngineSettings } from './engine-settings.js'
import { warmUp } from './warm-up.js'

/** Longer sequences have no drafts where all slots share one large pool of KV cells. */
const longestInPool = 8192

/**
 * Loads the draft model, if the settings have one, with slots as long as the served model's.
 *
 * @throws what its backend throws
 */
export async function openDraft(
  registry: PluginRegistry,
  { backendName, draft }: EngineSettings,
  { contextSize, kvTokens }: BackendLimits,
  context: BackendContext,
): Promise<Pick<EngineParts, 'draftBackend'>> {
  if (draft === undefined) return {}
  const longest = kvTokens === undefined ? contextSize : Math.min(contextSize, longestInPool)
  const options = { ...draft, contextSize: longest }
  const draftBackend = await registry.createBackend(backendName, options, context)
  await warmUp(draftBackend)
  return { draftBackend }
}
