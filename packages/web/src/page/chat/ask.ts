import type { AnswerChunk, CallDelta } from '../../answers.js'
import { readEvents, type Server } from '../server.js'
import type { AnswerFigures, ToolCall, Turn } from './conversation.js'

/** The parts of a turn that a streamed answer fills in. */
export type AnswerSoFar = Required<Pick<Turn, 'content' | 'reasoning' | 'calls' | 'figures'>> &
  Pick<Turn, 'request' | 'finish' | 'problem'>

/**
 * Asks for an answer, and reports it as it streams in.
 *
 * @param before - the answer that it goes on with; one without a text is begun again
 * @throws ServerError where it is refused; an Error when it is cut short or the signal aborts
 */
export async function ask(
  server: Server,
  body: object,
  signal: AbortSignal,
  onProgress: (answer: AnswerSoFar) => void,
  { content = '', reasoning = '' }: Partial<Turn> = {},
): Promise<void> {
  const began = performance.now()
  const call = { method: 'POST', body, headers: { 'x-cllm-forecast': 'true' }, signal } as const
  const response = await server.call('v1/chat/completions', call)
  const request = response.headers.get('x-cllm-request-id')
  let answer: AnswerSoFar = {
    content,
    reasoning: content === '' ? '' : reasoning,
    calls: [],
    figures: forecastOf(response),
    problem: undefined,
    ...(request === null ? {} : { request }),
  }
  onProgress(answer)
  let [first, chunks] = [began, 0]
  for await (const { data } of readEvents(response)) {
    if (data === '[DONE]') break
    const before = answer
    answer = added(before, JSON.parse(data) as AnswerChunk)
    if (hasMore(before, answer)) {
      const now = performance.now()
      chunks++
      if (chunks === 1) first = now
      const figures = {
        ...answer.figures,
        firstTokenMs: first - began,
        // About one chunk a token (a token may be part of a letter); the server's own figure comes at the end.
        ...(now > first && { tokensPerSecond: (1000 * (chunks - 1)) / (now - first) }),
      }
      answer = { ...answer, figures }
    }
    onProgress(answer)
  }
}

const hasMore = (before: AnswerSoFar, { content, reasoning, calls }: AnswerSoFar): boolean =>
  content !== before.content || reasoning !== before.reasoning || calls !== before.calls

function forecastOf({ headers }: Response): AnswerFigures {
  const [place, predicted] = [headers.get('x-queue-position'), headers.get('x-predicted-ttft-ms')]
  if (place === null || predicted === null) return {}
  return { place: Number(place), predictedMs: Number(predicted) }
}

/** The answer with a chunk added. */
export function added(answer: AnswerSoFar, chunk: AnswerChunk): AnswerSoFar {
  if (chunk.error !== undefined) throw new Error(chunk.error.message ?? 'The answer failed')
  let { content, reasoning, calls, figures, finish } = answer
  for (const { delta = {}, finish_reason: reason } of chunk.choices ?? []) {
    content += delta.content ?? ''
    finish = reason ?? finish
    reasoning += delta.reasoning_content ?? ''
    for (const call of delta.tool_calls ?? []) calls = withCall(calls, call)
  }
  const { usage, timings } = chunk
  if (usage !== undefined && usage !== null) {
    const cachedTokens = usage.prompt_tokens_details?.cached_tokens
    const tokensPerSecond = timings?.predicted_per_second
    figures = {
      ...figures,
      promptTokens: usage.prompt_tokens,
      tokens: usage.completion_tokens,
      ...(cachedTokens !== undefined && { cachedTokens }),
      ...(tokensPerSecond !== undefined && { tokensPerSecond }),
    }
  }
  return { ...answer, content, reasoning, calls, figures, ...(finish !== undefined && { finish }) }
}

function withCall(calls: readonly ToolCall[], delta: CallDelta): readonly ToolCall[] {
  const all = [...calls]
  const known = all[delta.index] ?? { id: '', name: '', arguments: '' }
  all[delta.index] = {
    id: delta.id ?? known.id,
    name: delta.function?.name ?? known.name,
    arguments: known.arguments + (delta.function?.arguments ?? ''),
  }
  return all
}
