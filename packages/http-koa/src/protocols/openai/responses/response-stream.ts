import type { TokenLogprobs } from '@cllm/core'
import { requestId } from '@cllm/host'
import type { AnswerPart, ToolCall } from '../../../chat/answer/answer-part.js'
import { type AnswerForm, createAnswerParser } from '../../../chat/answer/create-answer-parser.js'
import type { EndEvent, Generation, GenerationEvent } from '../../../request/generation.js'
import type { JsonObject } from '../../../fields/fields.js'
import { responseLogprob, StreamTimings, timingsOf } from '../../../request/usage.js'
import type { Call, CallOf, Encoder } from '../../../routes/route.js'
import { openAiErrorBody } from '../openai-answer.js'
import { CustomInput, type ClientFunction, type FunctionsByName } from '../openai-tools.js'
import { isCall, itemBody, itemKinds, outputOf, partOf, responseEnd } from './response-object.js'
import type { ItemKind, OutputItem } from './response-object.js'
import type { responsesSchema } from './responses-request.js'

/** Sends an event. */
export type Send = (type: string, members: JsonObject & { readonly response?: object }) => void

const kinds = { text: 'message', reasoning: 'reasoning' } as const

/** Extra members of a kind's text events. */
const extrasOf = (kind: ItemKind, logprobs: readonly TokenLogprobs[]): JsonObject =>
  kind === 'message' ? { logprobs: logprobs.map(responseLogprob) } : {}

/** The items of an answer, streamed event by event. */
class ItemStream {
  readonly items: OutputItem[] = []
  /** The timings of the latest token, if wanted. */
  timings: object | undefined
  /** The log probabilities of the tokens in the next piece of text. */
  logprobs: TokenLogprobs[] = []
  /** The input of the last item, if that is a call of a free-form tool. */
  #input: CustomInput | undefined

  constructor(
    private readonly asked: Call,
    private readonly response: string,
    private readonly send: Send,
    private readonly offered: FunctionsByName | undefined,
  ) {}

  push(parts: readonly AnswerPart[]): void {
    for (const part of parts) {
      if (part.type === 'call') this.#call(part.call)
      else if (part.type === 'arguments') this.#addArguments(part.text)
      else this.#add(kinds[part.type], part.text)
    }
  }

  /** Every answer ends with calls or with a message, which may be empty. */
  end(isCut: boolean): void {
    if ((this.items.at(-1)?.kind ?? 'reasoning') === 'reasoning') this.#begin('message')
    this.#finish(isCut)
  }

  #call({ name, arguments: given }: ToolCall): void {
    const { isCustom = false, called = { name } } = this.offered?.get(name) ?? {}
    this.#begin(isCustom ? 'custom_tool_call' : 'function_call', called)
    if (isCustom) this.#input = new CustomInput()
    if (given !== '') this.#addArguments(given)
  }

  #addArguments(text: string): void {
    if (this.#input === undefined) this.#add('function_call', text)
    else this.#addInput(this.#input.push(text))
  }

  #addInput(text: string): void {
    if (text !== '') this.#add('custom_tool_call', text)
  }

  #add(kind: ItemKind, text: string): void {
    if (this.items.at(-1)?.kind !== kind) this.#begin(kind)
    const item = this.items.at(-1)!
    const logprobs = kind === 'message' ? this.logprobs.splice(0) : []
    item.text += text
    item.logprobs.push(...logprobs)
    this.send(`response.${itemKinds[kind].text}.delta`, {
      ...this.#place,
      delta: text,
      ...extrasOf(kind, logprobs),
      ...(this.timings !== undefined && { timings: this.timings }),
    })
  }

  #begin(kind: ItemKind, called: ClientFunction['called'] = { name: '' }): void {
    const output_index = this.items.length
    if (output_index > 0) this.#finish()
    const item: OutputItem = {
      kind,
      // the id contains the response's, in which the item is found again
      id: `${itemKinds[kind].prefix}_${output_index}_${this.response}`,
      callId: isCall(kind) ? `call_${requestId(this.asked.random)}` : '',
      text: '',
      logprobs: [],
      ...called,
    }
    this.items.push(item)
    this.send('response.output_item.added', { output_index, item: itemBody(item, false) })
    if (isCall(kind)) return
    this.send('response.content_part.added', { ...this.#place, part: partOf(item) })
  }

  #finish(isCut = false): void {
    this.#addInput(this.#input?.end() ?? '')
    this.#input = undefined
    const output_index = this.items.length - 1
    const item = this.items[output_index]!
    const { kind, text, name, logprobs } = item
    const done = `response.${itemKinds[kind].text}.done`
    if (kind === 'function_call') this.send(done, { ...this.#place, name, arguments: text })
    else if (kind === 'custom_tool_call') this.send(done, { ...this.#place, input: text })
    else {
      this.send(done, { ...this.#place, text, ...extrasOf(kind, logprobs) })
      this.send('response.content_part.done', { ...this.#place, part: partOf(item) })
    }
    this.send('response.output_item.done', { output_index, item: itemBody(item, true, isCut) })
  }

  get #place(): JsonObject {
    const { id, kind } = this.items.at(-1)!
    return {
      item_id: id,
      output_index: this.items.length - 1,
      ...(isCall(kind) ? {} : { content_index: 0 }),
    }
  }
}

/** Options of a stream. */
export interface ResponseStreamOptions {
  readonly head: { readonly id: string }
  readonly form: AnswerForm
  readonly generation: Generation
  readonly offered: FunctionsByName | undefined
  /** Stores the finished response, and resolves with the version that the client gets. */
  readonly keep: <Response extends object>(response: Response) => Promise<Response>
  /** Whether the response is stored. */
  readonly isKept: boolean
}

/** Writes events with their numbers. */
export function eventsTo(write: (text: string) => void): Send {
  let sequence_number = 0
  return (type, members) => {
    const data = JSON.stringify({ type, sequence_number: sequence_number++, ...members })
    write(`event: ${type}\ndata: ${data}\n\n`)
  }
}

/**
 * Sends an answer as the events of OpenAI's Responses API, in the order that it documents.
 *
 * @param streams - whether calls are streamed as they are generated, instead of as a whole
 */
export function responseEvents(
  call: CallOf<typeof responsesSchema>,
  { head, offered, keep, isKept, form, generation }: ResponseStreamOptions,
  send: Send,
  streams = true,
): Encoder<GenerationEvent> {
  const parser = createAnswerParser(form, streams)
  const answer = new ItemStream(call, head.id, send, offered)
  const { return_progress: showsProgress, timings_per_token: hasTimings = false } = call.fields
  const timings = new StreamTimings(call.clock, generation.promptTokens, showsProgress)
  let end: EndEvent | undefined
  return {
    begin() {
      send('response.created', { response: head })
      send('response.in_progress', { response: head })
    },
    push(event) {
      if (event.type === 'progress') {
        const prompt_progress = timings.progress(event)
        if (prompt_progress) send('response.in_progress', { response: head, prompt_progress })
        return
      }
      if (event.type === 'token') answer.timings = hasTimings ? timings.onToken() : undefined
      if (event.type === 'token' && event.logprobs !== undefined) {
        answer.logprobs.push(event.logprobs)
      }
      answer.push(parser.push(event.text))
      if (event.type !== 'end') return
      answer.push(parser.end())
      answer.end(event.reason === 'length')
      end = event
    },
    async end() {
      if (end === undefined) return
      const ended = { ...head, ...responseEnd(call, end, answer.items, parser.reasoningTokens) }
      const response = await keep(ended)
      send(`response.${response.status}`, {
        response,
        ...(hasTimings && { timings: timingsOf(end) }),
      })
    },
    async fail(error) {
      const { message, code } = openAiErrorBody(error).error
      const isCancelled = isKept && error.code === 'cancelled'
      if (isCancelled && answer.items.length > 0) answer.end(true)
      const response = isCancelled
        ? { ...head, status: 'cancelled', output: outputOf(answer.items, true) }
        : { ...head, status: 'failed', error: { code, message } }
      const type = isCancelled ? 'response.incomplete' : 'response.failed'
      send(type, { response: await keep(response) })
    },
  }
}
