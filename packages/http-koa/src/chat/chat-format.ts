import type { EngineInfo } from '@cllm/core'

/** How a model writes tool calls: in its template's format, or in the one our prompt asks for. */
export type ToolFormat = 'hermes' | 'mistral' | 'llama3' | 'generic'

/** What a model's chat template implies about its answers. */
export interface ChatFormat {
  readonly tools: ToolFormat
  /** Whether answers may begin with reasoning between `<think>` and `</think>`. */
  readonly thinks: boolean
}

/** The format of the model that an engine serves. */
export function chatFormatOf({ model }: EngineInfo): ChatFormat {
  const template = String(model.details?.['chatTemplate'] ?? '')
  return { tools: toolFormat(template), thinks: template.includes('</think>') }
}

/** A template that never mentions tools cannot render them. */
function toolFormat(template: string): ToolFormat {
  if (!/\btools\b/.test(template)) return 'generic'
  if (template.includes('<tool_call>')) return 'hermes'
  if (template.includes('[TOOL_CALLS]')) return 'mistral'
  return 'llama3'
}
