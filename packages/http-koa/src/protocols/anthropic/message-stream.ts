import type { AnswerPart } from '../../chat/answer/answer-part.js'
import { type AnswerForm, createAnswerParser } from '../../chat/answer/create-answer-parser.js'
import type { Generation, GenerationEvent } from '../../request/generation.js'
import type { Call, Encoder } from '../../routes/route.js'
import { anthropicErrorBody } from './anthropic-error.js'
import { type BlockKind, newBlock, stopOf, usageOf } from './message-body.js'

type Send = (type: string, members?: object) => void

const kinds = { text: 'text', reasoning: 'thinking', arguments: 'tool_use' } as const

const deltaOf = (kind: BlockKind, text: string): object => {
  if (kind === 'text') return { type: 'text_delta', text }
  if (kind === 'thinking') return { type: 'thinking_delta', thinking: text }
  return { type: 'input_json_delta', partial_json: text }
}

/** The blocks of an answer, streamed event by event. */
class BlockStream {
  #kind: BlockKind | undefined
  #index = -1
  #calls = 0

  constructor(
    private readonly call: Call,
    private readonly send: Send,
  ) {}

  get hasCalls(): boolean {
    return this.#calls > 0
  }

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

  /** An answer has one block at least. */
  end(): void {
    if (this.#kind === undefined) this.#begin('text')
    this.#finish()
  }

  #begin(kind: BlockKind, name?: string): void {
    this.#finish()
    this.#kind = kind
    this.#index++
    if (kind === 'tool_use') this.#calls++
    const content_block = newBlock(this.call, kind, name)
    this.send('content_block_start', { index: this.#index, content_block })
  }

  #add(text: string): void {
    const delta = deltaOf(this.#kind ?? 'text', text)
    this.send('content_block_delta', { index: this.#index, delta })
  }

  #finish(): void {
    if (this.#kind === 'thinking') {
      // clients wait for one, though nothing is signed here
      const delta = { type: 'signature_delta', signature: '' }
      this.send('content_block_delta', { index: this.#index, delta })
    }
    if (this.#kind !== undefined) this.send('content_block_stop', { index: this.#index })
    this.#kind = undefined
  }
}

/** Writes an answer as the events of Anthropic's Messages API, in the order that it documents. */
export function messageEvents(
  call: Call,
  { promptTokens }: Generation,
  form: AnswerForm,
  { head, keptTokens }: { readonly head: object; readonly keptTokens: number | undefined },
  write: (text: string) => void,
): Encoder<GenerationEvent> {
  const send: Send = (type, members) => {
    write(`event: ${type}\ndata: ${JSON.stringify({ type, ...members })}\n\n`)
  }
  const parser = createAnswerParser(form, true)
  const blocks = new BlockStream(call, send)
  // What was in the cache is known at the end.
  const none = usageOf({ promptTokens, cachedTokens: 0, generatedTokens: 0 }, 0)
  const open = { stop_reason: null, stop_sequence: null, stop_details: null }
  const begun = { ...head, content: [], ...open, usage: none }
  return {
    begin() {
      send('message_start', { message: begun })
      send('ping')
    },
    push(event) {
      blocks.push(parser.push(event.text))
      if (event.type !== 'end') return
      blocks.push(parser.end())
      blocks.end()
      const usage = usageOf(event.usage, parser.reasoningTokens, keptTokens)
      send('message_delta', { delta: stopOf(event, blocks.hasCalls), usage })
      send('message_stop')
    },
    fail: (error) => send('error', anthropicErrorBody(error, call.id)),
  }
}
