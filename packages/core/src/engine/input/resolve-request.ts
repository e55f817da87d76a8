import { inject, injectable } from 'tsyringe'
import type { Clock, Random } from '../../contracts/services.js'
import type {
  ContextShift,
  GenerateRequest,
  RequestReports,
} from '../../contracts/engine/generate-request.js'
import { type SamplingParams, defaultSampling } from '../../contracts/model/sampling.js'
import type { MediaSpan, RequestAdapters } from '../../contracts/model/model-info.js'
import type { TokenId, Tokenizer } from '../../contracts/model/tokenizer.js'
import type { Backend, BackendLimits } from '../../contracts/model/backend.js'
import { CllmError } from '../../errors/cllm-error.js'
import {
  checkConstraint,
  checkContinuation,
  checkFields,
  checkNumber,
  checkSampling,
  checkTokens,
  invalidField,
  unsupported,
} from './check-request.js'
import { defined } from '../../defined.js'
import * as tokens from '../../tokens.js'
import { ENGINE_OPTIONS, type EngineOptions } from '../engine-options.js'
import { describeLogprobs } from '../requests/output-processor.js'
import { EncodeLane } from './encode-lane.js'
import { checkMixed, hasMedia, type MediaContext, mediaEnd } from './resolve-media.js'
import { StopMatcher } from '../requests/stop-matcher.js'
import { PartQueue } from './resolve-prompt.js'
import { requestDefaults, type SequenceRequest, type ShiftPlan } from '../requests/sequence.js'
import { SAMPLERS, type SamplerCatalog } from '../../plugin/definitions.js'

/** The parts with which requests are checked and completed. */
@injectable()
export class InputContext implements MediaContext {
  readonly limits: BackendLimits

  constructor(
    @inject(tokens.BACKEND) readonly backend: Backend,
    @inject(tokens.TOKENIZER) readonly tokenizer: Tokenizer,
    @inject(SAMPLERS) readonly samplers: SamplerCatalog,
    @inject(tokens.RANDOM) readonly random: Random,
    @inject(ENGINE_OPTIONS) readonly options: EngineOptions,
    @inject(PartQueue) readonly parts: PartQueue,
    @inject(EncodeLane) readonly lane: EncodeLane,
    @inject(tokens.CLOCK) readonly clock: Clock,
  ) {
    this.limits = backend.limits
  }

  /** The owner of a request's images and sounds, for the encoder's queue. */
  ownerOf(id: string, request: GenerateRequest, arrival: number, signal: AbortSignal) {
    const given = { ...requestDefaults, ...defined(request) }
    const { priority, tenant, session, deadlineMs, continued } = given
    const scope = this.options.isolateTenants ? tenant : ''
    const deadline = deadlineMs === undefined ? undefined : arrival + deadlineMs
    const isNew = continued === undefined
    return { id, arrival, priority, deadline, tenant, session, scope, isNew, signal }
  }
}

type Check = (signal: AbortSignal) => Promise<void> | undefined
type Complete = (prompt: readonly TokenId[], media?: readonly MediaSpan[]) => SequenceRequest

/**
 * Checks all of a request but its prompt.
 * @returns a function that completes it with the prompt's tokens, and the check of its constraint if it has one; its
 *   result is a promise if it takes longer
 */
export function resolveRequest(
  id: string,
  request: GenerateRequest,
  context: InputContext,
  { adapters, now }: { readonly adapters: RequestAdapters; readonly now: number },
): [complete: Complete, check: Check | undefined] {
  const { backend, tokenizer, options } = context
  if (backend.capabilities.generates === false) {
    const why = `${backend.model.id} writes no text: it is a model for embeddings`
    throw unsupported('model', 'generates', why)
  }
  checkFields(request, backend)
  // The function below must not keep the prompt in memory, which may be long.
  const { prompt: asked, ...fields } = request
  const given = { ...requestDefaults, ...defined(fields), id }
  const { continued, tenant, stepGroup: group, stop = [], marks = [] } = given
  const { keepMs, retainMs = keepMs, deadlineMs, timeoutMs = options.requestTimeoutMs } = given
  if (continued !== undefined) checkContinuation(continued, given.maxTokens, tokenizer)
  // The log probabilities of a continued request's prompt were sent with its first token.
  const isBegun = (continued?.tokens.length ?? 0) > 0
  const promptLogprobs = isBegun ? undefined : given.promptLogprobs
  // Requests with different adapters never share a step, so they are in different groups.
  const stepGroup = adapters.key === '' ? group : JSON.stringify([group ?? '', adapters.key])
  const { contextShift = options.contextShift ? {} : false } = given
  const shiftOf = contextShift === false ? undefined : resolveShift(contextShift, given, context)
  const sampling = resolveSampling(given, context)
  const { samplers, seed, constraint } = sampling
  const processors =
    samplers === undefined ? [] : context.samplers.create(samplers, { tokenizer, seed })
  const isMixed = backend.media !== undefined && hasMedia(asked)
  if (isMixed) checkMixed(given, shiftOf !== undefined)
  const complete: Complete = (prompt, media) => ({
    ...given,
    sampling,
    processors,
    deadline: deadlineMs === undefined ? undefined : now + deadlineMs,
    expires: timeoutMs === undefined ? undefined : now + timeoutMs,
    stepGroup,
    adapters,
    // Cached tokens have no probabilities.
    cache: given.cache && promptLogprobs === undefined,
    retainMs,
    logprobs: given.drawLogprobs === undefined ? given.logprobs : undefined,
    promptLogprobs,
    // With context shift, drafts would have to be removed before older tokens are dropped.
    speculative: given.speculative && shiftOf === undefined && !isMixed,
    shift: shiftOf?.(prompt),
    contextSize: context.limits.contextSize,
    replayTokens: context.limits.replayTokens,
    describe: (token, drawn) => describeLogprobs(tokenizer, token, drawn),
    // With other adapters, which are other step groups, the same tokens have other keys and values.
    scope: JSON.stringify([options.isolateTenants ? tenant : '', stepGroup ?? '']),
    // A copy, since the sequence appends to the prompt's list.
    decoder: tokenizer.createDecoder(media ? prompt.slice(mediaEnd(media)) : [...prompt], {
      marks,
    }),
    stopMatcher: stop.length > 0 ? new StopMatcher([...stop]) : undefined,
  })
  const check: Check | undefined =
    constraint && ((signal) => checkConstraint(constraint, backend, signal, tenant))
  return [complete, check]
}

function resolveSampling(
  { sampling: given = {}, fallbackSampling = {} }: Omit<GenerateRequest, 'prompt'>,
  { backend, tokenizer, random, options }: InputContext,
): SamplingParams {
  for (const [field, value] of Object.entries({ sampling: given, fallbackSampling })) {
    if (typeof value !== 'object' || value === null) throw invalidField(field, 'an object', value)
  }
  const sampling = {
    ...defaultSampling,
    seed: given.seed ?? random.uint32(),
    ...fallbackSampling,
    ...backend.model.sampling,
    ...options.sampling,
    ...given,
  }
  checkSampling(sampling, backend.capabilities)
  const { logitBias } = sampling
  if (!Array.isArray(logitBias) || !logitBias.every(Array.isArray)) {
    throw invalidField('logitBias', 'an array of pairs of a token id and a number', logitBias)
  }
  for (const [token, bias] of logitBias) {
    checkTokens('logitBias', [token], tokenizer)
    checkNumber('logitBias', bias, {})
  }
  return sampling
}

/** The least number of tokens of a slot that can be dropped. */
const leastMoving = 4

/**
 * Checks the request's context shift; the returned function tells which tokens leave a full slot.
 *
 * @throws CllmError `invalid_request` or `unsupported`
 */
function resolveShift(
  contextShift: ContextShift,
  { promptLogprobs }: RequestReports,
  { tokenizer, backend, limits }: InputContext,
): (prompt: readonly TokenId[]) => ShiftPlan {
  if (typeof contextShift !== 'object' || contextShift === null) {
    throw invalidField('contextShift', 'false or an object', contextShift)
  }
  const { keep = 0 } = contextShift
  checkNumber('contextShift.keep', keep, { min: -1, integer: true })
  if (backend.shift === undefined) {
    const why = "this model's memory, or the way it is laid out, cannot be shifted"
    throw unsupported('contextShift', 'contextShift', why)
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
