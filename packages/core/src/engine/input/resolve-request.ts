import { inject, injectable } from 'tsyringe'
import type { Random } from '../../contracts/clock.js'
import type { ContextShift, GenerateRequest } from '../../contracts/engine/generate-request.js'
import { type SamplingParams, defaultSampling } from '../../contracts/model/sampling.js'
import type { TokenId, Tokenizer } from '../../contracts/model/tokenizer.js'
import type { Backend, BackendLimits } from '../../contracts/model/backend.js'
import { CllmError } from '../../errors/cllm-error.js'
import { type RequestAdapters, groupWith } from '../features/adapters.js'
import {
  checkConstraint,
  checkContinuation,
  checkNumber,
  checkSampling,
  checkTokens,
  invalidField,
} from './check-request.js'
import * as tokens from '../../tokens.js'
import type { EngineOptions } from '../engine-options.js'
import { StopMatcher, checkLogprobs, describeLogprobs } from '../requests/output-processor.js'
import { PartQueue, type PromptContext } from './resolve-prompt.js'
import type { SequenceRequest } from '../requests/sequence.js'
import type { SamplerCatalog } from './sampler-catalog.js'

/** What requests are checked and completed with. */
@injectable()
export class InputContext implements PromptContext {
  readonly limits: BackendLimits

  constructor(
    @inject(tokens.BACKEND) readonly backend: Backend,
    @inject(tokens.TOKENIZER) readonly tokenizer: Tokenizer,
    @inject(tokens.SAMPLERS) readonly samplers: SamplerCatalog,
    @inject(tokens.RANDOM) readonly random: Random,
    @inject(tokens.ENGINE_OPTIONS) readonly options: EngineOptions,
    @inject(PartQueue) readonly parts: PartQueue,
  ) {
    this.limits = backend.limits
  }
}

const defaultMaxTokens = 100

/** Checks all of a request but its prompt, and says what it is with the prompt's tokens. */
export function resolveRequest(
  id: string,
  request: GenerateRequest,
  context: InputContext,
  { adapters, now }: { readonly adapters: RequestAdapters; readonly now: number },
): (prompt: readonly TokenId[]) => SequenceRequest {
  const { tokenizer, options } = context
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

function resolveSampling(request: GenerateRequest, context: InputContext): SamplingParams {
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

function checkBiases(biases: SamplingParams['logitBias'], { tokenizer }: InputContext): void {
  if (!Array.isArray(biases) || !biases.every(Array.isArray)) {
    throw invalidField('logitBias', 'an array of pairs of a token id and a number', biases)
  }
  for (const [token, bias] of biases) {
    checkTokens('logitBias', [token], tokenizer)
    checkNumber('logitBias', bias, {})
  }
}

/** What leaves a full slot: the tokens from `keep` on, `discard` of them. */
export interface ShiftPlan {
  readonly keep: number
  readonly discard: number
}

/** At least this many tokens of a slot are not kept. */
const leastMoving = 4

/**
 * Checks what a request says of context shift; the result says what leaves a full slot, or undefined
 * where the request ends then.
 *
 * @throws CllmError `invalid_request` or `unsupported`
 */
function resolveShift(
  request: GenerateRequest,
  { tokenizer, backend, limits, options }: InputContext,
): ((prompt: readonly TokenId[]) => ShiftPlan) | undefined {
  const { promptLogprobs, contextShift = options.contextShift ? {} : false } = request
  if (contextShift === false) return undefined
  if (typeof contextShift !== 'object' || contextShift === null) {
    throw invalidField('contextShift', 'false or an object', contextShift)
  }
  const { keep = 0 }: ContextShift = contextShift
  checkNumber('contextShift.keep', keep, { min: -1, integer: true })
  if (backend.capabilities.contextShift !== true) {
    const details = { field: 'contextShift', capability: 'contextShift' }
    const message =
      "contextShift: this model's memory, or the way it is laid out, cannot be shifted"
    throw new CllmError('unsupported', message, { details })
  }
  if (promptLogprobs !== undefined) {
    const message = 'contextShift: expected none with promptLogprobs'
    throw new CllmError('invalid_request', message, { details: { field: 'contextShift' } })
  }
  return (prompt) => {
    const [begin] = tokenizer.encode('')
    const more = begin !== undefined && prompt[0] === begin ? 1 : 0
    const { contextSize } = limits
    const wanted = keep === -1 ? prompt.length : keep + more
    const kept = Math.max(0, Math.min(contextSize - leastMoving, wanted))
    return { keep: kept, discard: Math.max(1, Math.floor((contextSize - kept) / 2)) }
  }
}
