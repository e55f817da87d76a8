import type { AnswerPart } from '../../chat/answer/answer-part.js'
import { type AnswerForm, createAnswerParser } from '../../chat/answer/create-answer-parser.js'
import type { KoaContext } from '../../routes/koa-context.js'
import { publicError } from '../../errors/public-error.js'
import type { Generation } from '../../request/generation.js'
import { promptProgress } from '../../request/prompt-progress.js'
import { StreamTimings } from '../../request/stream-timings.js'
import { timingsOf } from '../../request/usage.js'
import { startEventStream } from '../../stream/start-event-stream.js'
import { openAiErrorBody } from '../openai-error.js'
import {
  itemBody,
  newItem,
  type OutputItem,
  partOf,
  responseEnd,
  textEvents,
} from './response-object.js'
import type { ItemKind } from './response-object.js'

type Send = (type: string, members: object) => void

const kinds = { text: 'message', reasoning: 'reasoning', arguments: 'function_call' } as const

/** Extra members of a kind's text events. */
const extras = { message: { logprobs: [] }, reasoning: {}, function_call: {} } as const

/** The items of an answer, streamed event by event. */
class ItemStream {
  readonly items: OutputItem[] = []
  /** Those of the latest token, when they are shown. */
  timings: object | undefined
  readonly #ctx: KoaContext
  readonly #send: Send
  #text: string[] = []

  constructor(ctx: KoaContext, send: Send) {
    this.#ctx = ctx
    this.#send = send
  }

  push(parts: readonly AnswerPart[]): void {
    for (const part of parts) {
      if (part.type === 'call') {
        this.#begin('function_call', part.call.name)
        if (part.call.arguments !== '') this.#add('function_call', part.call.arguments)
      } else this.#add(kinds[part.type], part.text)
    }
  }

  /** Every answer ends with calls or with a message, which may be empty. */
  end(): void {
    if ((this.items.at(-1)?.kind ?? 'reasoning') === 'reasoning') this.#begin('message')
    this.#finish()
  }

  #add(kind: ItemKind, text: string): void {
    if (this.items.at(-1)?.kind !== kind) this.#begin(kind)
    this.#text.push(text)
    this.#send(`response.${textEvents[kind]}.delta`, {
      ...this.#place,
      delta: text,
      ...extras[kind],
      ...(this.timings !== undefined && { timings: this.timings }),
    })
  }

  #begin(kind: ItemKind, name?: string): void {
    if (this.items.length > 0) this.#finish()
    const item = newItem(this.#ctx, kind, name)
    this.items.push(item)
    const output_index = this.items.length - 1
    this.#send('response.output_item.added', { output_index, item: itemBody(item, false) })
    if (kind === 'function_call') return
    this.#send('response.content_part.added', { ...this.#place, part: partOf(item) })
  }

  #finish(): void {
    const output_index = this.items.length - 1
    const item = { ...this.items[output_index]!, text: this.#text.join('') }
    const { kind, text, name } = item
    this.items[output_index] = item
    this.#text = []
    const done = `response.${textEvents[kind]}.done`
    if (kind === 'function_call') this.#send(done, { ...this.#place, name, arguments: text })
    else {
      this.#send(done, { ...this.#place, text, ...extras[kind] })
      this.#send('response.content_part.done', { ...this.#place, part: partOf(item) })
    }
    this.#send('response.output_item.done', { output_index, item: itemBody(item, true) })
  }

  get #place(): object {
    const { id, kind } = this.items.at(-1)!
    return {
      item_id: id,
      output_index: this.items.length - 1,
      ...(kind === 'function_call' ? {} : { content_index: 0 }),
    }
  }
}

/** Streams an answer as the events of OpenAI's Responses API, in the order that it documents. */
export async function streamResponse(
  ctx: KoaContext,
  { events, promptTokens }: Generation,
  form: AnswerForm,
  { head, hasTimings }: { readonly head: object; readonly hasTimings: boolean },
): Promise<void> {
  const response = startEventStream(ctx)
  let sequence_number = 0
  const send: Send = (type, members) => {
    const data = JSON.stringify({ type, sequence_number: sequence_number++, ...members })
    response.write(`event: ${type}\ndata: ${data}\n\n`)
  }
  const parser = createAnswerParser(form, true)
  const answer = new ItemStream(ctx, send)
  const timings = new StreamTimings(ctx.state.transport.clock, promptTokens)
  const begun = {
    ...head,
    status: 'in_progress',
    incomplete_details: null,
    output: [],
    usage: null,
  }
  try {
    send('response.created', { response: begun })
    send('response.in_progress', { response: begun })
    for await (const event of events) {
      if (event.type === 'progress') {
        const prompt_progress = promptProgress(event, timings.elapsedMs)
        send('response.in_progress', { response: begun, prompt_progress })
        continue
      }
      if (event.type === 'token') answer.timings = hasTimings ? timings.onToken() : undefined
      answer.push(parser.push(event.text))
      if (event.type !== 'end') continue
      answer.push(parser.end())
      answer.end()
      const ended = { ...head, ...responseEnd(event, answer.items) }
      send(`response.${ended.status}`, {
        response: ended,
        ...(hasTimings && { timings: timingsOf(event) }),
      })
    }
  } catch (error) {
    if (response.destroyed) return
    const { message, code } = openAiErrorBody(publicError(error, ctx.state.transport.logger)).error
    send('response.failed', { response: { ...begun, status: 'failed', error: { code, message } } })
  }
  response.end()
}
