import { requestId } from '@cllm/host'
import type { ToolCall } from '../../chat/answer/answer-part.js'
import type { Call } from '../../routes/route.js'
import type { LogLevelControl } from '../../routes/define-protocol.js'
import type { McpServers } from '../mcp/mcp-servers.js'
import type { FunctionsByName } from './tools/openai-tools.js'
import type { KeptItems } from './responses/kept-items.js'
import { customInput } from './tools/custom-tools.js'
import type { ProtocolDefaults } from '../../request/build-request.js'

/** A tool call in an answer; that of a free-form tool has its input as a text. */
export function toolCallOf(
  { random }: Pick<Call, 'random'>,
  call: ToolCall,
  offered: FunctionsByName | undefined,
): object {
  const id = `call_${requestId(random)}`
  if (offered?.get(call.name)?.isCustom !== true) return { id, type: 'function', function: call }
  const custom = { name: call.name, input: customInput(call.arguments) }
  return { id, type: 'custom', custom }
}

/** What the handlers of OpenAI's API share. */
export interface OpenAiContext {
  /** The values of fields that requests leave out, by route. */
  readonly defaults: Readonly<Record<keyof typeof openAiDefaults, ProtocolDefaults>>
  /** Seconds since the epoch, shown as the date of every model. */
  readonly started: number
  /** The responses and conversations that are kept; undefined: none are. */
  readonly kept: KeptItems | undefined
  /** The MCP servers that the configuration names; undefined: none. */
  readonly mcp: McpServers | undefined
  /** Below `info` answers to chats show the prompt where a request does not say. */
  readonly log: LogLevelControl | undefined
}

/** Seconds since the epoch. */
export const secondsNow = (call: Call): number => Math.floor(call.clock.now() / 1000)

/** The fingerprint of an engine that has none, as llama-server writes it; clients only compare it. */
export const unknownFingerprint = 'b0-cllm'

const sampling = Object.freeze({ temperature: 1 })

/** OpenAI's documented defaults, by route, and those of Mistral's model for code; penalties are off. */
export const openAiDefaults = Object.freeze({
  '/v1/chat/completions': { maxTokens: Infinity, sampling },
  '/v1/responses': { maxTokens: Infinity, sampling },
  '/v1/completions': { maxTokens: 16, sampling },
  '/v1/audio/transcriptions': { maxTokens: Infinity, sampling: { temperature: 0 } },
  '/v1/fim/completions': { maxTokens: Infinity, sampling: { temperature: 0.3 } },
})
