import type { Random } from '../../contracts/clock.js'
import type { GenerateRequest } from '../../contracts/engine/generate-request.js'
import { defaultSampling, type SamplingParams } from '../../contracts/model/sampling.js'
import type { TokenId } from '../../contracts/model/tokenizer.js'
import type { Backend } from '../../contracts/model/backend.js'
import { CllmError } from '../../errors/cllm-error.js'
import { groupWith, type RequestAdapters } from '../adapters/request-adapters.js'
import { checkConstraint, type ConstraintJudge } from './check-constraint.js'
import { checkContinuation, checkNumber, checkTokens, invalidField } from './check-fields.js'
import { checkSampling } from './check-sampling.js'
import type { EngineOptions } from '../engine-options.js'
import { checkLogprobs, describeLogprobs } from '../output/token-logprobs.js'
import { resolveShift } from './resolve-shift.js'
import type { PromptContext } from './resolve-prompt.js'
import type { SequenceRequest } from '../requests/sequence.js'
import type { SamplerCatalog } from '../../sampler/sampler-catalog.js'
import { StopMatcher } from '../output/stop-matcher.js'

/** What a request is checked and completed with. */
export interface ResolveContext extends PromptContext {
  readonly backend: ConstraintJudge & Pick<Backend, 'model' | 'capabilities'>
  readonly samplers: SamplerCatalog
  readonly adapters: RequestAdapters
  readonly random: Random
  readonly options: EngineOptions
  readonly now: number
}

const defaultMaxTokens = 100

/** Checks all of a request but its prompt, and says what it is with the prompt's tokens. */
export function resolveRequest(
  id: string,
  request: GenerateRequest,
  context: ResolveContext,
): (prompt: readonly TokenId[]) => SequenceRequest {
  const { tokenizer, now, options } = context
  checkGenerates(context.backend)
  const { maxTokens = defaultMaxTokens, priority = 0, stop = [], tenant = 'default' } = request
  // What the closures below keep alive must not hold the prompt, which is long.
  const { session, cache = true, forecast = false, logprobs, drawLogprobs, marks = [] } = request
  const promptLogprobs = promptLogprobsOf(request)
  const {
    sample,
    continued,
    deadlineMs,
    speculative = true,
    progress = false,
    pin = false,
    slot,
  } = request
  checkNumber('maxTokens', maxTokens, { min: 1, integer: true })
  checkNumber('priority', priority, {})
  checkDuration('deadlineMs', request.deadlineMs)
  checkDuration('timeoutMs', request.timeoutMs)
  checkDuration('keepMs', request.keepMs)
  checkDuration('arrivedMsAgo', request.arrivedMsAgo)
  checkStops(stop)
  checkMarks(marks)
  for (const field of ['tenant', 'session', 'stepGroup'] as const) {
    checkType(field, request[field], 'string')
  }
  checkType('cache', request.cache, 'boolean')
  if (slot !== undefined) {
    checkNumber('slot', slot, { min: 0, max: context.limits.slots - 1, integer: true })
  }
  if (sample !== undefined) checkNumber('sample', sample, { min: 0, integer: true })
  checkType('forecast', request.forecast, 'boolean')
  checkType('pin', request.pin, 'boolean')
  checkType('progress', request.progress, 'boolean')
  checkType('speculative', request.speculative, 'boolean')
  checkLogprobs(request, context.backend)
  checkContinuation(request.continued, maxTokens, context)
  const { adapters } = context
  const stepGroup = groupWith(request.stepGroup, adapters)
  const shiftOf = resolveShift(request, context)
  const sampling = resolveSampling(request, context)
  const { samplers = [], seed } = sampling
  const processors = context.samplers.create(samplers, { tokenizer, seed })
  const timeoutMs = request.timeoutMs ?? options.requestTimeoutMs
  return (prompt) => ({
    id,
    maxTokens,
    sampling,
    processors,
    priority,
    deadline: deadlineMs === undefined ? undefined : now + deadlineMs,
    expires: timeoutMs === undefined ? undefined : now + timeoutMs,
    tenant,
    session,
    stepGroup,
    adapters,
    // What is found in a slot has no probabilities.
    cache: cache && promptLogprobs === undefined,
    slot,
    sample,
    forecast,
    progress,
    pin,
    keepMs: request.keepMs,
    logprobs: drawLogprobs === undefined ? logprobs : undefined,
    drawLogprobs,
    promptLogprobs,
    // Drafts would have to be taken off before others are dropped.
    speculative: speculative && shiftOf === undefined,
    shift: shiftOf?.(prompt),
    contextSize: context.limits.contextSize,
    describe: (token, drawn) => describeLogprobs(tokenizer, token, drawn),
    continued,
    // With another adapter, which is another step group, the same tokens have other keys.
    scope: JSON.stringify([options.isolateTenants ? tenant : '', stepGroup ?? '']),
    // A copy, since the sequence goes on writing into the prompt's list.
    decoder: tokenizer.createDecoder([...prompt], { marks }),
    stopMatcher: new StopMatcher([...stop]),
  })
}

function checkGenerates({ model, capabilities }: Pick<Backend, 'model' | 'capabilities'>): void {
  if (capabilities.generates !== false) return
  const message = `model: ${model.id} writes no text: it is a model for embeddings`
  throw new CllmError('unsupported', message, {
    details: { field: 'model', capability: 'generates' },
  })
}

/** Those of a request that is continued went with its first token. */
function promptLogprobsOf({ promptLogprobs, continued }: GenerateRequest): number | undefined {
  return (continued?.tokens.length ?? 0) > 0 ? undefined : promptLogprobs
}

function checkDuration(field: string, value: number | undefined): void {
  if (value !== undefined) checkNumber(field, value, { min: 0 })
}

function checkType(field: string, value: unknown, type: 'string' | 'boolean'): void {
  if (value === undefined || typeof value === type) return
  throw invalidField(field, type === 'string' ? 'a text' : 'true or false', value)
}

function checkStops(stops: readonly string[]): void {
  const valid =
    Array.isArray(stops) && stops.every((stop) => typeof stop === 'string' && stop !== '')
  if (!valid) throw invalidField('stop', 'an array of texts that are not empty', stops)
}

function checkMarks(marks: readonly string[]): void {
  const valid = Array.isArray(marks) && marks.every((mark) => typeof mark === 'string')
  if (!valid) throw invalidField('marks', 'an array of texts', marks)
}

function resolveSampling(request: GenerateRequest, context: ResolveContext): SamplingParams {
  const { sampling: given = {}, fallbackSampling = {} } = request
  checkIsObject('sampling', given)
  checkIsObject('fallbackSampling', fallbackSampling)
  const sampling = {
    ...defaultSampling,
    seed: given.seed ?? context.random.uint32(),
    ...fallbackSampling,
    ...context.backend.model.sampling,
    ...context.options.sampling,
    ...given,
  }
  checkSampling(sampling, context.backend.capabilities)
  checkBiases(sampling.logitBias, context)
  checkConstraint(sampling.constraint, context.backend)
  return sampling
}

function checkIsObject(field: string, value: unknown): void {
  if (typeof value !== 'object' || value === null) throw invalidField(field, 'an object', value)
}

function checkBiases(biases: SamplingParams['logitBias'], { tokenizer }: ResolveContext): void {
  if (!Array.isArray(biases) || !biases.every(Array.isArray)) {
    throw invalidField('logitBias', 'an array of pairs of a token id and a number', biases)
  }
  for (const [token, bias] of biases) {
    checkTokens('logitBias', [token], tokenizer)
    checkNumber('logitBias', bias, {})
  }
}
