import { defined, type TokenLogprobs } from '@cllm/core'
import type { Call, CallOf } from '../../../routes/route.js'
import type { EndEvent } from '../../../request/generation.js'
import { type JsonObject, parsedJson } from '../../../fields/fields.js'
import { responseLogprob } from '../../../request/usage.js'
import { secondsNow } from '../openai-answer.js'
import type { responsesSchema } from './responses-request.js'

/** The kinds of items in an answer: the event type that carries an item's text or arguments, and the prefix of its id. */
export const itemKinds = {
  reasoning: { text: 'reasoning_text', prefix: 'rs' },
  message: { text: 'output_text', prefix: 'msg' },
  function_call: { text: 'function_call_arguments', prefix: 'fc' },
  custom_tool_call: { text: 'custom_tool_call_input', prefix: 'ctc' },
} as const

/** One of {@link itemKinds}. */
export type ItemKind = keyof typeof itemKinds

/** An item of the answer. */
export interface OutputItem {
  readonly kind: ItemKind
  readonly id: string
  /** The text so far; of a call: its arguments, or its input. */
  text: string
  /** Of a call: the id that its result refers to. */
  readonly callId: string
  /** Of a call: the tool. */
  readonly name: string
  readonly namespace?: string
  /** Of a message: the log probabilities of its tokens, if wanted. */
  readonly logprobs: TokenLogprobs[]
}

/** Whether an item is a call. */
export const isCall = (kind: ItemKind): boolean =>
  kind === 'function_call' || kind === 'custom_tool_call'

/** A part of an item's content. */
export const partOf = ({ kind, text, logprobs }: OutputItem): object => ({
  type: itemKinds[kind].text,
  text,
  ...(kind === 'message' ? { annotations: [], logprobs: logprobs.map(responseLogprob) } : {}),
})

/**
 * An item as OpenAI writes it; one that is not done has no content yet.
 *
 * @param isCut - whether the answer was cut off in it, or right after it
 */
export function itemBody(item: OutputItem, isDone: boolean, isCut = false): object {
  const { kind, id, callId, text } = item
  const isWhole = !isCut || (kind === 'function_call' && parsedJson(text) !== undefined)
  const status = !isDone ? 'in_progress' : isWhole ? 'completed' : 'incomplete'
  const head = { id, type: kind, status }
  const called = { call_id: callId, name: item.name, ...defined({ namespace: item.namespace }) }
  if (kind === 'function_call') return { ...head, ...called, arguments: text }
  if (kind === 'custom_tool_call') return { ...head, ...called, input: text }
  return {
    ...head,
    ...(kind === 'message' ? { role: 'assistant' } : { summary: [] }),
    content: isDone ? [partOf(item)] : [],
  }
}

/** The items of an answer at its end. */
export const outputOf = (items: readonly OutputItem[], isCut: boolean): readonly object[] =>
  items.map((item, index) => itemBody(item, true, isCut && index === items.length - 1))

/** Members that echo fields without effect here: the request's values, or OpenAI's defaults. */
const echoed = {
  background: false,
  max_tool_calls: null,
  prompt_cache_key: null,
  safety_identifier: null,
  service_tier: 'default',
  top_logprobs: 0,
  user: null,
} as const

/**
 * A response at its beginning; {@link responseEnd} has the members that change.
 *
 * @param isKept - whether it is found later
 */
export function responseHead(
  call: CallOf<typeof responsesSchema>,
  model: string,
  id: string,
  isKept: boolean,
) {
  const { fields } = call
  return {
    id,
    object: 'response',
    status: 'in_progress',
    created_at: secondsNow(call),
    completed_at: null,
    model,
    error: null,
    incomplete_details: null,
    output: [],
    usage: null,
    instructions: fields.instructions ?? null,
    max_output_tokens: fields.max_output_tokens ?? null,
    metadata: fields.metadata ?? {},
    ...Object.fromEntries(
      Object.entries(echoed).map(([name, value]) => [name, (fields as JsonObject)[name] ?? value]),
    ),
    parallel_tool_calls: fields.parallel_tool_calls ?? true,
    previous_response_id: fields.previous_response_id ?? null,
    ...(fields.conversation !== undefined && { conversation: { id: fields.conversation } }),
    reasoning: { effort: fields.reasoning?.effort ?? null, summary: null },
    store: isKept,
    temperature: fields.temperature ?? null,
    text: fields.text ?? { format: { type: 'text' } },
    tool_choice: fields.tool_choice ?? 'auto',
    tools: fields.tools ?? [],
    top_p: fields.top_p ?? null,
    truncation: fields.truncation ?? 'disabled',
  }
}

/** The members that a response has at its end. */
export function responseEnd(
  call: Call,
  { reason, usage }: EndEvent,
  items: readonly OutputItem[],
  reasoningTokens: number,
) {
  const isCut = reason === 'length'
  return {
    status: isCut ? 'incomplete' : 'completed',
    completed_at: isCut ? null : secondsNow(call),
    incomplete_details: isCut ? { reason: 'max_output_tokens' } : null,
    output: outputOf(items, isCut),
    usage: {
      input_tokens: usage.promptTokens,
      input_tokens_details: { cached_tokens: usage.cachedTokens, cache_write_tokens: 0 },
      output_tokens: usage.generatedTokens,
      output_tokens_details: { reasoning_tokens: reasoningTokens },
      total_tokens: usage.promptTokens + usage.generatedTokens,
    },
  }
}
