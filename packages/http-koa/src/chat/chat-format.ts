import type { EngineInfo } from '@cllm/core'

/** How a model writes tool calls: in the words of its template, or as it was asked to in ours. */
export type ToolFormat = 'hermes' | 'mistral' | 'llama3' | 'generic'

/** What a model's chat template tells of its answers. */
export interface ChatFormat {
  readonly tools: ToolFormat
  /** Whether the model may think aloud between `<think>` and `</think>` first. */
  readonly thinks: boolean
}

const formats = new Map<string, ChatFormat>()

/** The format of the model that an engine serves. */
export function chatFormatOf({ model }: EngineInfo): ChatFormat {
  const template = String(model.details?.['chatTemplate'] ?? '')
  const known = formats.get(template)
  if (known !== undefined) return known
  const format = { tools: toolFormat(template), thinks: template.includes('</think>') }
  formats.set(template, format)
  return format
}

/** A template that never speaks of tools cannot render them. */
function toolFormat(template: string): ToolFormat {
  if (!/\btools\b/.test(template)) return 'generic'
  if (template.includes('<tool_call>')) return 'hermes'
  if (template.includes('[TOOL_CALLS]')) return 'mistral'
  return 'llama3'
}
