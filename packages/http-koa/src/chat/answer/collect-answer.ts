import type { TokenLogprobs } from '@cllm/core'
import type { EndEvent, Generation } from '../../request/generation.js'
import type { AnswerPart, ToolCall } from './answer-part.js'
import { type AnswerForm, createAnswerParser } from './create-answer-parser.js'

/** A whole answer. */
export interface CollectedAnswer {
  readonly content: string
  readonly reasoning: string
  readonly calls: readonly ToolCall[]
  /** The logprobs of all tokens, if requested. */
  readonly logprobs: readonly TokenLogprobs[]
  readonly reasoningTokens: number
  readonly end: EndEvent
}

/** Waits for a whole answer and splits it into parts. */
export async function collectAnswer(
  { events }: Generation,
  form: AnswerForm,
): Promise<CollectedAnswer> {
  const parser = createAnswerParser(form)
  const parts: AnswerPart[] = []
  const logprobs: TokenLogprobs[] = []
  let end: EndEvent | undefined
  for await (const event of events) {
    for (const part of parser.push(event.text)) parts.push(part)
    if (event.type === 'end') end = event
    else if (event.type === 'token' && event.logprobs !== undefined) logprobs.push(event.logprobs)
  }
  for (const part of parser.end()) parts.push(part)
  const textOf = (type: AnswerPart['type']) =>
    parts.map((part) => (part.type === type && 'text' in part ? part.text : '')).join('')
  return {
    content: textOf('text'),
    reasoning: textOf('reasoning'),
    calls: parts.flatMap((part) => (part.type === 'call' ? [part.call] : [])),
    logprobs,
    reasoningTokens: parser.reasoningTokens,
    end: end!,
  }
}
