import type { BackendLimits } from '../contracts/backend.js'
import type { Random } from '../contracts/clock.js'
import type { GenerateRequest, Prompt } from '../contracts/engine-client.js'
import { defaultSampling, type SamplingParams } from '../contracts/sampling.js'
import type { TokenId, Tokenizer } from '../contracts/tokenizer.js'
import { CllmError } from '../errors/cllm-error.js'
import { checkNumber, invalidField } from './check-number.js'
import type { EngineOptions } from './engine-options.js'
import type { SequenceRequest } from './sequence.js'
import { StopMatcher } from './stop-matcher.js'

/** What a request is checked and completed with. */
export interface ResolveContext {
  readonly tokenizer: Tokenizer
  readonly limits: BackendLimits
  readonly random: Random
  readonly options: EngineOptions
  readonly now: number
}

const defaultMaxTokens = 100
const maximumSeed = 0xffff_ffff

/** Checks a request, fills in its defaults and tokenizes its prompt. */
export function resolveRequest(
  id: string,
  request: GenerateRequest,
  context: ResolveContext,
): SequenceRequest {
  const { tokenizer, now, options } = context
  const { maxTokens = defaultMaxTokens, priority = 0, stop = [] } = request
  checkNumber('maxTokens', maxTokens, { min: 1, integer: true })
  checkNumber('priority', priority, {})
  checkDuration('deadlineMs', request.deadlineMs)
  checkDuration('timeoutMs', request.timeoutMs)
  checkStops(stop)
  const sampling = resolveSampling(request.sampling ?? {}, context)
  const timeoutMs = request.timeoutMs ?? options.requestTimeoutMs
  return {
    id,
    prompt: resolvePrompt(request.prompt, context),
    maxTokens,
    sampling,
    priority,
    deadline: request.deadlineMs === undefined ? undefined : now + request.deadlineMs,
    expires: timeoutMs === undefined ? undefined : now + timeoutMs,
    tenant: request.tenant ?? 'default',
    session: request.session,
    stepGroup: request.stepGroup,
    cache: request.cache ?? true,
    decoder: tokenizer.createDecoder(),
    stopMatcher: new StopMatcher(stop),
  }
}

function checkDuration(field: string, value: number | undefined): void {
  if (value !== undefined) checkNumber(field, value, { min: 0 })
}

function checkStops(stops: readonly string[]): void {
  const valid =
    Array.isArray(stops) && stops.every((stop) => typeof stop === 'string' && stop !== '')
  if (!valid) throw invalidField('stop', 'an array of texts that are not empty', stops)
}

function resolveSampling(given: Partial<SamplingParams>, context: ResolveContext): SamplingParams {
  const sampling = { ...defaultSampling, seed: given.seed ?? context.random.uint32(), ...given }
  checkNumber('temperature', sampling.temperature, { min: 0, max: 100 })
  checkNumber('topK', sampling.topK, { min: 0, integer: true })
  checkNumber('topP', sampling.topP, { min: 0, max: 1 })
  checkNumber('minP', sampling.minP, { min: 0, max: 1 })
  checkNumber('seed', sampling.seed, { min: 0, max: maximumSeed, integer: true })
  checkNumber('repetitionPenalty', sampling.repetitionPenalty, { min: 0.01, max: 100 })
  checkNumber('presencePenalty', sampling.presencePenalty, { min: -100, max: 100 })
  checkNumber('frequencyPenalty', sampling.frequencyPenalty, { min: -100, max: 100 })
  for (const [token, bias] of sampling.logitBias) {
    checkTokens('logitBias', [token], context.tokenizer)
    checkNumber('logitBias', bias, {})
  }
  return sampling
}

function resolvePrompt(prompt: Prompt, context: ResolveContext): readonly TokenId[] {
  const tokens = tokenize(prompt, context)
  if (tokens.length === 0) throw invalidField('prompt', 'at least one token', '')
  if (tokens.length > context.limits.contextSize)
    throw promptTooLong(String(tokens.length), context)
  return tokens
}

function tokenize(prompt: Prompt, context: ResolveContext): readonly TokenId[] {
  const { tokenizer } = context
  if ('tokens' in prompt) {
    checkTokens('prompt', prompt.tokens, tokenizer)
    return prompt.tokens
  }
  if ('messages' in prompt) {
    for (const message of prompt.messages) refuseByLength(message.content, context)
    return tokenizer.renderChat(prompt.messages, prompt.template).tokens
  }
  if (prompt.text === '') throw invalidField('prompt', 'a text that is not empty', prompt.text)
  refuseByLength(prompt.text, context)
  return tokenizer.encode(prompt.text)
}

/** Tokenizing blocks the loop, so what cannot fit by its size alone is refused before. */
function refuseByLength(text: string, context: ResolveContext): void {
  const least = Math.ceil(Buffer.byteLength(text) / context.tokenizer.maxTokenBytes)
  if (least > context.limits.contextSize) throw promptTooLong(`at least ${least}`, context)
}

function promptTooLong(count: string, { limits }: ResolveContext): CllmError {
  const message = `prompt: it has ${count} tokens, a slot holds ${limits.contextSize}`
  return new CllmError('prompt_too_long', message, {
    details: { field: 'prompt', promptTokens: count, contextSize: limits.contextSize },
  })
}

function checkTokens(field: string, tokens: readonly TokenId[], tokenizer: Tokenizer): void {
  const size = tokenizer.vocabularySize
  const wrong = tokens.find((id) => !Number.isInteger(id) || id < 0 || id >= size)
  if (wrong === undefined) return
  const message = `${field}: expected token ids from 0 to ${size - 1}, instead got ${wrong}`
  throw new CllmError('invalid_token', message, { details: { field, received: wrong } })
}
