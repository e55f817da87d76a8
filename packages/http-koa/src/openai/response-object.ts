import { requestId } from '@cllm/core'
import type { KoaContext } from '../koa-context.js'
import type { EndEvent } from '../request/generation.js'
import { secondsNow } from './openai-context.js'
import type { ResponsesFields } from './responses-request.js'

/** What an answer is made of: what the model thought, and its message. */
export type ItemKind = 'reasoning' | 'message'

/** The type of the one part of each kind's content. */
export const partTypes = { reasoning: 'reasoning_text', message: 'output_text' } as const

const prefixes = { reasoning: 'rs', message: 'msg' } as const

/** An item of the answer. */
export interface OutputItem {
  readonly kind: ItemKind
  readonly id: string
  readonly text: string
}

/** An item whose text is still to come. */
export const newItem = (ctx: KoaContext, kind: ItemKind): OutputItem => ({
  kind,
  id: `${prefixes[kind]}_${requestId(ctx.state.transport.random)}`,
  text: '',
})

/** A part of an item's content. */
export const partOf = ({ kind, text }: OutputItem): object => ({
  type: partTypes[kind],
  text,
  ...(kind === 'message' ? { annotations: [], logprobs: [] } : {}),
})

/** An item as OpenAI writes it; one that is not done has no content yet. */
export const itemBody = (item: OutputItem, isDone: boolean): object => ({
  id: item.id,
  type: item.kind,
  status: isDone ? 'completed' : 'in_progress',
  ...(item.kind === 'message' ? { role: 'assistant' } : { summary: [] }),
  content: isDone ? [partOf(item)] : [],
})

/** What a response says from its beginning to its end. */
export const responseHead = (ctx: KoaContext, fields: ResponsesFields, model: string) => ({
  id: `resp_${requestId(ctx.state.transport.random)}`,
  object: 'response',
  created_at: secondsNow(ctx),
  model,
  error: null,
  instructions: fields.instructions ?? null,
  max_output_tokens: fields.max_output_tokens ?? null,
  metadata: fields.metadata ?? {},
  parallel_tool_calls: true,
  previous_response_id: null,
  store: false,
  temperature: fields.temperature ?? null,
  text: fields.text ?? { format: { type: 'text' } },
  tool_choice: 'none',
  tools: [],
  top_p: fields.top_p ?? null,
  truncation: 'disabled',
})

/** What a response says at its end. */
export function responseEnd({ reason, usage }: EndEvent, items: readonly OutputItem[]) {
  const isCut = reason === 'length'
  return {
    status: isCut ? 'incomplete' : 'completed',
    incomplete_details: isCut ? { reason: 'max_output_tokens' } : null,
    output: items.map((item) => itemBody(item, true)),
    usage: {
      input_tokens: usage.promptTokens,
      input_tokens_details: { cached_tokens: usage.cachedTokens },
      output_tokens: usage.generatedTokens,
      output_tokens_details: { reasoning_tokens: 0 },
      total_tokens: usage.promptTokens + usage.generatedTokens,
    },
  }
}
