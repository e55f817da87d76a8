import type { EngineClient, GenerateRequest, OutputConstraint, TokenId, Usage } from '@cllm/core'
import { requestId } from '@cllm/host'
import type { AnswerForm } from '../chat/answer/create-answer-parser.js'
import type { Call } from '../routes/call.js'
import {
  type EndEvent,
  type Generation,
  type GenerationEvents,
  startGeneration,
  startGenerations,
} from './generation.js'
import { promptTokens } from './prompt-text.js'

/** Tokens beyond the budget within which a sentence should have ended. */
const slack = 48
const sentenceEnd = /[.!?…。！？:;]["')\]]*\s*$|\n\s*$/

/** How long a model may think. */
export interface ThinkingLimit {
  /** Tokens; the sentence that is begun then is ended. */
  readonly budget: number
  readonly form: AnswerForm
  /** What the answer is held to when the thoughts were ended; default: what the request says. */
  readonly afterThinking?: OutputConstraint | undefined
}

/**
 * Starts requests whose thoughts end after a number of tokens: the request is cancelled at the end of
 * a sentence and continued behind the mark that ends thoughts, with what was computed.
 *
 * @param limit - undefined: thoughts are as long as they are
 */
export async function startThinking(
  call: Call,
  client: EngineClient,
  requests: readonly GenerateRequest[],
  limit: ThinkingLimit | undefined,
): Promise<Generation[]> {
  const generations = await startGenerations(call, client, requests)
  const thinking = limit?.form.thinks === true ? limit.form.format.thinking : undefined
  if (limit === undefined || thinking === undefined) return generations
  return generations.map((generation, index) => ({
    ...generation,
    events: limited(call, client, { request: requests[index]!, generation, limit, ...thinking }),
  }))
}

interface Limited {
  readonly request: GenerateRequest
  readonly generation: Generation
  readonly limit: ThinkingLimit
  readonly open: string
  readonly close: string
}

async function* limited(
  call: Call,
  client: EngineClient,
  { request, generation, limit, open, close }: Limited,
): AsyncGenerator<GenerationEvents extends AsyncIterable<infer Event> ? Event : never> {
  const { clock, random } = call
  const began = clock.now()
  const tokens: TokenId[] = []
  let text = ''
  let thoughts = 0
  let hasEnded = false
  for await (const event of generation.events) {
    yield event
    if (event.type === 'end') return
    if (event.type === 'progress') continue
    tokens.push(event.token)
    text += event.text
    hasEnded ||= text.includes(close)
    const isThinking = !hasEnded && (limit.form.thinkingIsOpen || text.includes(open))
    if (isThinking) thoughts++
    // leaving the loop cancels the request
    if (!isThinking || thoughts < limit.budget) continue
    if (sentenceEnd.test(text) || thoughts >= limit.budget + slack) break
  }
  const ending = `\n${close}\n\n`
  const closing = await client.tokenize(ending, { addBos: false })
  yield { type: 'token', token: closing[0] ?? 0, text: ending }
  const before = await promptTokens(client, request.prompt)
  const elapsedMs = clock.now() - began
  const written = tokens.length + closing.length
  const { constraint, ...sampling } = request.sampling ?? {}
  const held = limit.afterThinking ?? constraint
  const next = await startGeneration(call, client, {
    ...request,
    // the answer's own id stays with the first part
    id: requestId(random),
    prompt: { tokens: [...before, ...tokens, ...closing] },
    // It is the same request: its prompt is counted, and its time limits begin, once.
    continued: { tokens: [], elapsedMs },
    maxTokens: Math.max(1, (request.maxTokens ?? 100) - written),
    sampling: { ...sampling, ...(held !== undefined && { constraint: held }) },
  })
  for await (const event of next.events) {
    if (event.type === 'token') yield event
    else if (event.type === 'end')
      yield { ...event, usage: together(event, generation.promptTokens, written) }
  }
}

function together({ usage }: EndEvent, promptTokens: number, written: number): Usage {
  return {
    promptTokens,
    // what was used again is known of the first part only by the engine that ended it
    cachedTokens: 0,
    generatedTokens: usage.generatedTokens + written,
  }
}
