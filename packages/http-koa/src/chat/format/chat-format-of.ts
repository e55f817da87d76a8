import type { EngineClient } from '@cllm/core'
import type { ChatFormat } from './chat-format.js'
import { learnChatFormat } from './learn-chat-format.js'
import type { RenderProbe } from './probe.js'

/** What has been learnt, by the template. */
const known = new Map<string, Promise<ChatFormat>>()
/** Templates that are remembered. */
const most = 64

/**
 * The format of the model that an engine serves, learnt from its chat template once.
 *
 * @throws what the engine throws when it cannot be reached
 */
export async function chatFormatOf(client: EngineClient): Promise<ChatFormat> {
  const { model } = await client.info()
  const source = String(model.details?.['chatTemplate'] ?? '')
  const learnt = known.get(source)
  if (learnt !== undefined) return await learnt
  const format = learnChatFormat(source, probeOf(client))
  known.set(source, format)
  format.catch(() => known.delete(source))
  const [oldest] = known.keys()
  if (known.size > most && oldest !== undefined) known.delete(oldest)
  return await format
}

/** A template may refuse a conversation: that is an answer too. An engine that is gone is none. */
const probeOf =
  (client: EngineClient): RenderProbe =>
  async (messages, options) => {
    try {
      return (await client.applyTemplate(messages, options)).text
    } catch (error) {
      if ((error as { code?: unknown }).code === 'invalid_request') return undefined
      throw error
    }
  }
