import type { TokenLogprobs } from '@cllm/core'
import type { EndEvent, Generation } from '../request/generation.js'
import type { AnswerPart, ToolCall } from './answer-part.js'
import { type AnswerForm, createAnswerParser } from './create-answer-parser.js'

/** A whole answer. */
export interface CollectedAnswer {
  readonly content: string
  readonly reasoning: string
  readonly calls: readonly ToolCall[]
  /** Those of all tokens, where they were asked for. */
  readonly logprobs: readonly TokenLogprobs[]
  readonly end: EndEvent
}

/** Waits for a whole answer and takes it apart. */
export async function collectAnswer(
  { events }: Generation,
  form: AnswerForm,
): Promise<CollectedAnswer> {
  const parser = createAnswerParser(form)
  const parts: AnswerPart[] = []
  const logprobs: TokenLogprobs[] = []
  let end: EndEvent | undefined
  for await (const event of events) {
    parts.push(...parser.push(event.text))
    if (event.type === 'end') end = event
    else if (event.logprobs !== undefined) logprobs.push(event.logprobs)
  }
  parts.push(...parser.end())
  const textOf = (type: AnswerPart['type']) =>
    parts.map((part) => (part.type === type && 'text' in part ? part.text : '')).join('')
  return {
    content: textOf('text'),
    reasoning: textOf('reasoning'),
    calls: parts.flatMap((part) => (part.type === 'call' ? [part.call] : [])),
    logprobs,
    end: end!,
  }
}
