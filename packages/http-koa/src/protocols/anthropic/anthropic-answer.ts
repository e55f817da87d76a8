import type { CllmError, Usage } from '@cllm/core'
import { z } from 'zod'
import { encoded, eventStream, type Call, type CallOf, type Encoder } from '../../routes/route.js'
import { errorMessage, errorsElsewhere, statusElsewhere } from '../../errors/error-body.js'
import { requestId } from '@cllm/host'
import { collectAnswer, createAnswerParser } from '../../chat/answer/create-answer-parser.js'
import type { CollectedAnswer } from '../../chat/answer/create-answer-parser.js'
import { parsedJson } from '../../fields/fields.js'
import type { EndEvent, Generation, GenerationEvent } from '../../request/generation.js'
import { startThinking } from '../../request/limit-thinking.js'
import type { ProtocolDefaults } from '../../request/build-request.js'
import { type MessageRequest, type messageSchema, toMessageRequest } from './messages-request.js'
import { lifetimes } from './cache-control.js'
import type { AnswerPart } from '../../chat/answer/answer-part.js'

/** The schema of Anthropic's errors. */
const anthropicErrorSchema = z.object({
  type: z.literal('error'),
  error: z.object({
    type: z.string(),
    message: z.string(),
    details: z.object({ error_code: z.string() }).optional(),
  }),
  request_id: z.string().nullable(),
})

const types: Readonly<Record<number, string>> = {
  401: 'authentication_error',
  403: 'permission_error',
  404: 'not_found_error',
  413: 'request_too_large',
  429: 'rate_limit_error',
  503: 'overloaded_error',
  504: 'timeout_error',
}

/** The body of a failure's answer, also sent as the `error` event of a stream. */
export function anthropicErrorBody(
  error: CllmError,
  id?: string,
): z.output<typeof anthropicErrorSchema> {
  const status = statusElsewhere(error)
  const type = types[status] ?? (status < 500 ? 'invalid_request_error' : 'api_error')
  const isThread = error.code === 'unsupported' && error.details.field === 'thread'
  return {
    type: 'error',
    error: {
      type,
      // at this message Anthropic's clients drop the image and continue
      message: `${error.code === 'invalid_media' ? 'Could not process image: ' : ''}${errorMessage(error)}`,
      // with this code Anthropic's client sends whole conversations from then on
      ...(isThread && { details: { error_code: 'thread_unsupported_request' } }),
    },
    request_id: id ?? null,
  }
}

/** The format of Anthropic's errors. */
export const anthropicErrors = errorsElsewhere(
  'anthropic-error',
  anthropicErrorSchema,
  anthropicErrorBody,
)

/** `POST /v1/messages`, whole or streamed. */
export async function messages(call: CallOf<typeof messageSchema>, defaults: ProtocolDefaults) {
  const { fields } = call
  const { model, client } = call.open(fields.model)
  const asked = await toMessageRequest(fields, client, defaults)
  const { request, form, limit } = asked
  const generation = (await startThinking(call, client, [request], limit))[0]!
  const head = {
    id: `msg_${generation.id}`,
    type: 'message',
    role: 'assistant',
    model,
    container: null,
    diagnostics: null,
  }
  if (fields.stream === true) {
    return encoded(eventStream, generation.events, (write) =>
      messageEvents(call, generation, head, asked, write),
    )
  }
  const answer = await collectAnswer(generation, form)
  return {
    ...head,
    content: contentOf(call, answer),
    ...stopOf(answer.end, answer.calls.length > 0),
    usage: usageOf(answer.end.usage, answer.reasoningTokens, asked),
  }
}

/** The kinds of blocks in an answer. */
type BlockKind = 'text' | 'thinking' | 'tool_use'

/** An empty block of a kind; a call has its name. */
function newBlock(call: Call, kind: BlockKind, name = ''): object {
  // without `citations`: some clients only accept a list
  if (kind === 'text') return { type: 'text', text: '' }
  // Without a signature, as only this server reads its reasoning again.
  if (kind === 'thinking') return { type: 'thinking', thinking: '', signature: '' }
  const caller = { type: 'direct' }
  return { type: 'tool_use', id: `toolu_${requestId(call.random)}`, name, input: {}, caller }
}

/** The content of a whole answer: the blocks that its stream would have, at least one. */
function contentOf(call: Call, { parts }: CollectedAnswer): readonly object[] {
  if (parts.length === 0) return [newBlock(call, 'text')]
  return parts.map((part) => {
    if (part.type === 'call') {
      const { name, arguments: given } = part.call
      // a truncated answer may end within its arguments
      return { ...newBlock(call, 'tool_use', name), input: parsedJson(given) ?? {} }
    }
    const kind = kinds[part.type]
    return { ...newBlock(call, kind), [kind]: part.text }
  })
}

/** Anthropic's `stop_reason` and `stop_sequence` of an answer. */
function stopOf({ reason, stop }: Pick<EndEvent, 'reason' | 'stop'>, hasCalls: boolean) {
  let stop_reason = hasCalls ? 'tool_use' : 'end_turn'
  if (stop !== undefined) stop_reason = 'stop_sequence'
  if (reason === 'length') stop_reason = 'max_tokens'
  return { stop_reason, stop_sequence: stop ?? null, stop_details: null, container: null }
}

/**
 * Token counts. Input tokens exclude those read from the cache and those written to it.
 *
 * @param thinking - how many of the answer's tokens are reasoning
 * @param asked - the request, with the tokens that are kept in the cache; absent: none are
 */
function usageOf(usage: Usage, thinking: number, asked?: MessageRequest) {
  const { promptTokens, cachedTokens, generatedTokens } = usage
  // at least one input token remains: at 0, Claude Code adds the count of `message_start` to the cache's
  const created = Math.max(0, Math.min(asked?.keptTokens ?? 0, promptTokens - 1) - cachedTokens)
  const isForHour = asked?.request.keepMs === lifetimes['1h']
  return {
    input_tokens: promptTokens - cachedTokens - created,
    cache_creation_input_tokens: created,
    cache_read_input_tokens: cachedTokens,
    output_tokens: generatedTokens,
    output_tokens_details: { thinking_tokens: thinking },
    cache_creation: {
      ephemeral_5m_input_tokens: isForHour ? 0 : created,
      ephemeral_1h_input_tokens: isForHour ? created : 0,
    },
    // Anthropic's types require these members, at least as null
    inference_geo: null,
    server_tool_use: null,
    service_tier: null,
    speed: null,
  }
}

type Send = (type: string, members?: object) => void

const kinds = { text: 'text', reasoning: 'thinking', arguments: 'tool_use' } as const

const deltaOf = (kind: BlockKind, text: string): object => {
  if (kind === 'text') return { type: 'text_delta', text }
  if (kind === 'thinking') return { type: 'thinking_delta', thinking: text }
  return { type: 'input_json_delta', partial_json: text }
}

/** The blocks of an answer, streamed event by event. */
class BlockStream {
  /** Whether a call has begun. */
  hasCalls = false
  #kind: BlockKind | undefined
  #index = -1

  constructor(
    private readonly call: Call,
    private readonly send: Send,
  ) {}

  push(parts: readonly AnswerPart[]): void {
    for (const part of parts) {
      if (part.type === 'call') {
        this.#begin('tool_use', part.call.name)
        if (part.call.arguments !== '') this.#add(part.call.arguments)
      } else {
        const kind = kinds[part.type]
        if (kind !== this.#kind) this.#begin(kind)
        this.#add(part.text)
      }
    }
  }

  /** Ends the answer, which has at least one block. */
  end(): void {
    if (this.#kind === undefined) this.#begin('text')
    this.#finish()
  }

  #begin(kind: BlockKind, name?: string): void {
    this.#finish()
    this.#kind = kind
    this.#index++
    if (kind === 'tool_use') this.hasCalls = true
    const content_block = newBlock(this.call, kind, name)
    this.send('content_block_start', { index: this.#index, content_block })
  }

  #add(text: string): void {
    const delta = deltaOf(this.#kind ?? 'text', text)
    this.send('content_block_delta', { index: this.#index, delta })
  }

  #finish(): void {
    if (this.#kind === 'thinking') {
      // clients expect a signature, although there is none here
      const delta = { type: 'signature_delta', signature: '' }
      this.send('content_block_delta', { index: this.#index, delta })
    }
    if (this.#kind !== undefined) this.send('content_block_stop', { index: this.#index })
    this.#kind = undefined
  }
}

/** Writes an answer as the events of Anthropic's Messages API, in the order that it documents. */
function messageEvents(
  call: Call,
  { promptTokens }: Generation,
  head: object,
  asked: MessageRequest,
  write: (text: string) => void,
): Encoder<GenerationEvent> {
  const send: Send = (type, members) => {
    write(`event: ${type}\ndata: ${JSON.stringify({ type, ...members })}\n\n`)
  }
  const parser = createAnswerParser(asked.form, true)
  const blocks = new BlockStream(call, send)
  // The number of cached tokens is only known at the end.
  const none = usageOf({ promptTokens, cachedTokens: 0, generatedTokens: 0 }, 0)
  const open = { stop_reason: null, stop_sequence: null, stop_details: null }
  return {
    begin() {
      send('message_start', { message: { ...head, content: [], ...open, usage: none } })
      send('ping')
    },
    push(event) {
      blocks.push(parser.push(event.text))
      if (event.type !== 'end') return
      blocks.push(parser.end())
      blocks.end()
      const usage = usageOf(event.usage, parser.reasoningTokens, asked)
      send('message_delta', { delta: stopOf(event, blocks.hasCalls), usage })
      send('message_stop')
    },
    fail: (error) => send('error', anthropicErrorBody(error, call.id)),
  }
}
