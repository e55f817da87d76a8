import type { AppliedAdapter, MediaSpan } from '../contracts/model/model-info.js'
import type {
  Backend,
  BatchItem,
  OutputLogprobs,
  SlotId,
  StepOutput,
  StepResult,
} from '../contracts/model/backend.js'
import type { TokenId, Tokenizer } from '../contracts/model/tokenizer.js'
import { shown, synchronous } from '../plugin/checks.js'
import { isToken } from './input/check-request.js'
import { defined } from '../defined.js'
import { CllmError, messageOf } from '../errors/cllm-error.js'

/** A step's outputs; an item with wrong outputs has an error in their place. */
export type CheckedOutputs = readonly (readonly StepOutput[] | CllmError)[]

/** The methods that every backend has. */
const methods = [
  'createSampler',
  'step',
  'truncate',
  'copyPrefix',
  'release',
  'preferSlot',
  'dispose',
] as const

/**
 * Checks what a backend in JavaScript, which has no types, may have wrong.
 *
 * @throws `plugin_invalid` that names all of it
 */
export function checkBackend(backend: Backend): void {
  const given: Partial<Backend> = Object(backend)
  const { model, limits, tokenizer, capabilities } = given
  const isCount = (value: unknown) => Number.isInteger(value) && Number(value) > 0
  const isRight = {
    'specificationVersion: 1': given.specificationVersion === 1,
    'model.id': typeof model?.id === 'string',
    'model.vocabularySize': isCount(model?.vocabularySize),
    'limits.slots': isCount(limits?.slots),
    'limits.contextSize': isCount(limits?.contextSize),
    'limits.batchSize': isCount(limits?.batchSize),
    tokenizer: typeof tokenizer?.encode === 'function',
    capabilities: typeof capabilities === 'object',
    ...Object.fromEntries(methods.map((name) => [name, typeof given[name] === 'function'])),
  }
  const wrong = Object.entries(isRight).flatMap(([name, is]) => (is ? [] : [name]))
  if (wrong.length === 0) return
  const message = `The backend of "${model?.id}" lacks, or has wrong: ${wrong.join(', ')}`
  throw new CllmError('plugin_invalid', message, { details: { wrong } })
}

/**
 * Asks a tokenizer once what would answer every request with nothing: methods that return promises, or no text.
 *
 * @throws `plugin_invalid` that names the method
 */
export function checkTokenizer(tokenizer: Tokenizer): void {
  try {
    const [token = 0] = synchronous(tokenizer.encode('hello'), 'encode')
    synchronous(tokenizer.isEndOfGeneration(token), 'isEndOfGeneration')
    const decoder = synchronous(tokenizer.createDecoder(), 'createDecoder')
    const pushed: unknown = synchronous(decoder.push(token), 'push')
    const ended: unknown = synchronous(decoder.end(), 'end')
    if (typeof pushed !== 'string' || typeof ended !== 'string') {
      const came = `${String(pushed)} and ${String(ended)}`
      throw new TypeError(`push and end of createDecoder returned ${came}, no texts`)
    }
  } catch (cause) {
    // It may take no text: its requests are told then. A plug-in's guard names the call.
    if (CllmError.isInstance(cause) && cause.details['call'] === undefined) return
    throw new CllmError('plugin_invalid', `The tokenizer: ${messageOf(cause)}`, { cause })
  }
}

/**
 * Cuts a slot to `length` tokens; returns how many the backend really kept.
 *
 * @throws `backend_failed` where the backend returns anything else
 */
export function truncate(backend: Backend, slot: SlotId, length: number): number {
  try {
    return keptTokens(backend, 'truncate', backend.truncate(slot, length), length)
  } catch (error) {
    throw toError(error, 'truncate')
  }
}

/**
 * Copies the first `length` tokens of a slot; returns how many the other slot really has.
 *
 * @throws `backend_failed` where the backend returns anything else
 */
export async function copyPrefix(backend: Backend, from: SlotId, to: SlotId, length: number) {
  return keptTokens(backend, 'copyPrefix', await backend.copyPrefix(from, to, length), length)
}

/**
 * The free slot that the backend prefers for a new sequence.
 *
 * @throws `backend_failed` where the backend names another slot
 */
export function preferSlot(
  backend: Backend,
  free: readonly SlotId[],
  used: readonly SlotId[],
): SlotId {
  const slot = backend.preferSlot(free, used)
  if (free.includes(slot)) return slot
  throw wrong(backend, 'preferSlot', `one of the slots ${free.join()}`, slot)
}

/**
 * A sampler for a sequence.
 *
 * @throws `backend_failed` where the backend returns none
 */
export function createSampler(backend: Backend, ...of: Parameters<Backend['createSampler']>) {
  const sampler = backend.createSampler(...of)
  if (typeof sampler?.dispose === 'function') return sampler
  throw wrong(backend, 'createSampler', 'a sampler with dispose()', sampler)
}

/**
 * Empties a slot.
 *
 * @throws `backend_failed` where the backend returns a promise, which nobody waits for
 */
export function release(backend: Backend, slot: SlotId): void {
  const came: unknown = backend.release(slot)
  if (came instanceof Promise) throw wrong(backend, 'release', 'nothing, at once', came)
}

/**
 * Milliseconds that each step takes longer with sequences in these slots; 0 where all slots are equally good.
 *
 * @throws `backend_failed` where the backend returns anything else
 */
export function layoutMs(backend: Backend, used: readonly SlotId[]): number {
  if (backend.layoutMs === undefined) return 0
  const ms = backend.layoutMs(used)
  if (ms >= 0 && ms < Infinity) return ms
  throw wrong(backend, 'layoutMs', 'milliseconds from 0', ms)
}

/** An input of {@link embed}. */
export interface EmbedInput {
  readonly tokens: readonly TokenId[]
  /** Its images and sounds, if it has any: it is then computed alone. */
  readonly media?: readonly MediaSpan[]
}

/**
 * A vector for each input.
 *
 * @throws `backend_failed` where an input has no vector
 */
export async function embed(
  backend: Backend,
  inputs: readonly EmbedInput[],
  adapters: readonly AppliedAdapter[],
): Promise<readonly (readonly number[])[]> {
  const [first] = inputs
  const texts = inputs.map(({ tokens }) => tokens)
  const vectors = first?.media
    ? [(await backend.embedMixed?.(first.tokens, first.media, adapters)) ?? []]
    : await backend.embed?.(texts, adapters)
  const count = vectors?.length ?? 0
  const isWhole = count === inputs.length && vectors?.every((one) => Number.isFinite(one?.[0]))
  if (vectors !== undefined && isWhole === true) return vectors
  const came = `${count} vectors, or an empty one`
  throw wrong(backend, 'embed', `a vector of numbers for each of ${inputs.length} inputs`, came)
}

/**
 * Checks the outputs of a step. An item with other outputs than it asked for gets an error in their place, so that only
 * its request fails.
 *
 * @param result - as the backend returned it; in plain JavaScript any part may be missing
 */
export function checkOutputs(
  backend: Backend,
  items: readonly BatchItem[],
  result: Partial<StepResult> | undefined,
): CheckedOutputs {
  const { outputs, scores, errors } = result ?? {}
  const isMap = errors === undefined || typeof errors.get === 'function'
  if (!Array.isArray(outputs) || !isMap) {
    const expected = `{ outputs }, a list for each item${isMap ? '' : ', and a Map as errors'}`
    const error = wrong(backend, 'step', expected, isMap ? outputs : errors)
    return items.map(() => error)
  }
  let checked: (readonly StepOutput[] | CllmError)[] | undefined
  for (const [index, item] of items.entries()) {
    const error = errors?.get(index) ?? problemOf(backend, item, outputs[index], scores?.[index])
    if (error !== undefined) (checked ??= [...outputs])[index] = toError(error)
  }
  return checked ?? outputs
}

/** The error for anything that a backend threw, in a call if it is known, or returned as an error. */
export function toError(error: unknown, call?: string): CllmError {
  // The tokens of requests were checked before: these are a tokenizer's that does not fit the model.
  if (CllmError.isInstance(error) && error.code !== 'invalid_token') return error
  const message = `The backend failed: ${call === undefined ? '' : `${call}: `}${messageOf(error)}`
  return new CllmError('backend_failed', message, { details: defined({ call }), cause: error })
}

function problemOf(
  backend: Backend,
  { outputs: wanted, drafts = 0, logprobs, drawLogprobs, scores }: BatchItem,
  drawn: readonly StepOutput[] | undefined,
  given: readonly OutputLogprobs[] | undefined,
): CllmError | undefined {
  const count = Array.isArray(drawn) ? drawn.length : 0
  const least = drafts > 0 ? 1 : wanted.length
  if (!(count >= least && count <= wanted.length)) {
    const expected = least === wanted.length ? `${least}` : `${least} to ${wanted.length}`
    const outputs = `${expected} outputs for an item that wants ${wanted.length}`
    return wrong(backend, 'step', outputs, count)
  }
  const { vocabularySize } = backend.model
  for (let index = 0; index < count; index++) {
    const output = drawn?.[index]
    // With another position, its token would be taken for that after another one.
    if (!isToken(output?.token, vocabularySize) || output.position !== wanted[index]) {
      const expected = `a token from 0 to ${vocabularySize - 1} for position ${wanted[index]}`
      return wrong(backend, 'step', expected, shown(output))
    }
    const came = output.logprobs
    if ((logprobs ?? drawLogprobs ?? came) === undefined || isScore(came)) continue
    const expected = '{ logprob, top } as the logprobs that an item asks for'
    return wrong(backend, 'step', expected, came)
  }
  if ((scores ?? given) === undefined) return undefined
  const [{ length }, scored] = [scores?.tokens ?? [], given ?? []]
  if (Array.isArray(scored) && scored.length === length && scored.every(isScore)) return undefined
  return wrong(backend, 'step', `{ logprob, top } for each of ${length} scored tokens`, scored)
}

const isScore = (one: OutputLogprobs | undefined): boolean =>
  Array.isArray(one?.top) && one.logprob <= Infinity

function keptTokens(backend: Backend, call: string, kept: unknown, length: number): number {
  if (Number.isInteger(kept) && Number(kept) >= 0 && Number(kept) <= length) return Number(kept)
  throw wrong(backend, call, `the number of tokens kept, from 0 to ${length}`, kept)
}

/** The error for a value that breaks the backend's contract. */
export function wrong(backend: Backend, call: string, expected: string, came: unknown): CllmError {
  // Its rejection, which nobody waits for, would end the process.
  if (came instanceof Promise) came.catch(() => {})
  const { id } = backend.model
  const message = `The backend of "${id}" returned a wrong value: ${call}: expected ${expected}, instead got ${String(came)}`
  return new CllmError('backend_failed', message, { details: { backend: id, call } })
}
