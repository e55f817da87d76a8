import type { Continuation, GenerateRequest } from '../../contracts/engine/generate-request.js'
import type { TokenId, Tokenizer } from '../../contracts/model/tokenizer.js'
import { CllmError, attempt } from '../../errors/cllm-error.js'
import type { Backend, BackendCapabilities } from '../../contracts/model/backend.js'
import { type SamplingParams, samplingRows } from '../../contracts/model/sampling.js'
import type { EitherJson, OutputConstraint, SurroundedJson } from '../../contracts/model/drawing.js'

/** The allowed range of a number. */
interface NumberRange {
  readonly min?: number
  readonly max?: number
  readonly integer?: boolean
}

/** Checks a number. @throws `invalid_request` with the field, the expected range and the received value */
export function checkNumber(field: string, value: unknown, range: NumberRange): void {
  const { min = -Infinity, max = Infinity, integer = false } = range
  const fits =
    typeof value === 'number' &&
    (integer ? Number.isSafeInteger(value) : Number.isFinite(value)) &&
    value >= min &&
    value <= max
  if (fits) return
  const bounds = [
    ...(min === -Infinity ? [] : [`at least ${min}`]),
    ...(max === Infinity ? [] : [`at most ${max}`]),
  ].join(' and ')
  const expected = `${integer ? 'an integer' : 'a number'}${bounds === '' ? '' : ` of ${bounds}`}`
  throw invalidField(field, expected, value)
}

/** The error for a field with a wrong value. */
export function invalidField(field: string, expected: string, received: unknown): CllmError {
  // JSON would show NaN and infinity as null.
  const isNumber = typeof received === 'number'
  const shown = isNumber ? String(received) : (JSON.stringify(received) ?? typeof received)
  const short = shown.length > 80 ? `${shown.slice(0, 77)}…` : shown
  return new CllmError('invalid_request', `${field}: expected ${expected}, instead got ${short}`, {
    details: { field, expected, received: short },
  })
}

/** The error for a field that needs a capability which the backend lacks. */
export function unsupported(field: string, capability: string, why: string): CllmError {
  return new CllmError('unsupported', `${field}: ${why}`, { details: { field, capability } })
}

/** Whether it is a token id of a vocabulary of this size. */
export const isToken = (id: unknown, vocabularySize: number): id is TokenId =>
  Number.isInteger(id) && Number(id) >= 0 && Number(id) < vocabularySize

/** Throws `invalid_token` naming the field and the first id that is outside the vocabulary. */
export function checkTokens(field: string, tokens: readonly TokenId[], tokenizer: Tokenizer): void {
  const size = tokenizer.vocabularySize
  const at = tokens.findIndex((id) => !isToken(id, size))
  if (at === -1) return
  const expected = `token ids from 0 to ${size - 1}`
  const { message, details } = invalidField(field, expected, tokens[at])
  throw new CllmError('invalid_token', message, { details })
}

/** The ranges of a request's number fields. */
const numbers = {
  maxTokens: { min: 1, integer: true },
  priority: {},
  deadlineMs: { min: 0 },
  timeoutMs: { min: 0 },
  keepMs: { min: 0 },
  retainMs: { min: 0 },
  arrivedMsAgo: { min: 0 },
  slot: { min: 0, integer: true },
  sample: { min: 0, integer: true },
} as const satisfies Partial<Record<keyof GenerateRequest, NumberRange>>
const types = {
  tenant: 'string',
  session: 'string',
  stepGroup: 'string',
  cache: 'boolean',
  forecast: 'boolean',
  pin: 'boolean',
  progress: 'boolean',
  speculative: 'boolean',
} as const
const lists = { stop: 'an array of texts that are not empty', marks: 'an array of texts' } as const

/** The most candidates per token that can be asked for, as with OpenAI. */
const mostLogprobs = 20

/** The messages where the backend lacks the capability of the same name. */
const logprobs = {
  logprobs: 'this backend does not give probabilities',
  drawLogprobs: 'this backend does not give the probabilities of a draw',
  promptLogprobs: 'this backend does not give the probabilities of a prompt',
} as const

/** All fields of a request. */
export const requestFields: Readonly<Record<keyof GenerateRequest, unknown>> = {
  ...numbers,
  ...types,
  ...lists,
  ...logprobs,
  id: 'string',
  prompt: 'object',
  sampling: 'object',
  fallbackSampling: 'object',
  adapters: 'object',
  contextShift: 'object',
  modelWait: 'object',
  continued: 'object',
}

/**
 * Checks the fields of a request that do not depend on each other.
 *
 * @throws CllmError `invalid_request`, or `unsupported` where the backend gives no such probabilities
 */
export function checkFields(request: GenerateRequest, { limits, capabilities }: Backend): void {
  for (const [name, range] of Object.entries(numbers)) {
    const field = name as keyof typeof numbers
    const most = field === 'slot' ? { ...range, max: limits.slots - 1 } : range
    if (request[field] !== undefined) checkNumber(field, request[field], most)
  }
  for (const [field, type] of Object.entries(types)) {
    const value: unknown = request[field as keyof typeof types]
    if (value === undefined || typeof value === type) continue
    throw invalidField(field, type === 'string' ? 'a text' : 'true or false', value)
  }
  for (const [field, expected] of Object.entries(lists)) {
    const list: unknown = request[field as keyof typeof lists]
    const least = field === 'stop' ? 1 : 0
    if (list === undefined || areTexts(list, least)) continue
    throw invalidField(field, expected, list)
  }
  for (const [name, why] of Object.entries(logprobs)) {
    const field = name as keyof typeof logprobs
    if (request[field] === undefined) continue
    checkNumber(field, request[field], { min: 0, max: mostLogprobs, integer: true })
    if (capabilities[field] !== true) throw unsupported(field, field, why)
  }
}

/** Checks the progress from another engine. @throws `invalid_request` or `invalid_token` */
export function checkContinuation(
  { tokens, elapsedMs, firstTokenMs = 0 }: Continuation,
  maxTokens: number,
  tokenizer: Tokenizer,
): void {
  if (!Array.isArray(tokens)) {
    throw invalidField('continued.tokens', 'an array of token ids', tokens)
  }
  checkTokens('continued.tokens', tokens, tokenizer)
  checkNumber('continued.tokens.length', tokens.length, { max: maxTokens - 1, integer: true })
  checkNumber('continued.elapsedMs', elapsedMs, { min: 0 })
  checkNumber('continued.firstTokenMs', firstTokenMs, { min: 0, max: elapsedMs })
}

/** Whether it is an array of texts with lengths in this range. */
function areTexts(list: unknown, least: number, most = Infinity): list is string[] {
  if (!Array.isArray(list)) return false
  for (const text of list as unknown[]) {
    if (typeof text !== 'string' || text.length < least || text.length > most) return false
  }
  return true
}

const maximumSeed = 0xffff_ffff
const mostBreakers = 32
const longestBreaker = 40

/**
 * Checks the numbers and texts of sampling parameters.
 *
 * @throws CllmError `invalid_request`, or `unsupported` for what the backend cannot do, naming the field
 */
export function checkSampling(
  sampling: SamplingParams,
  capabilities: Pick<BackendCapabilities, 'samplers'>,
): void {
  const { mirostat, drySequenceBreakers, ignoreEos, samplers = [] } = sampling
  if (mirostat !== 0 && mirostat !== 2) throw invalidField('mirostat', '0 or 2', mirostat)
  for (const [field, range] of samplingRows) checkNumber(field, sampling[field], range)
  checkNumber('seed', sampling.seed, { min: 0, max: maximumSeed, integer: true })
  const areBreakers = areTexts(drySequenceBreakers, 1, longestBreaker)
  if (!areBreakers || drySequenceBreakers.length > mostBreakers) {
    const expected = `an array of up to ${mostBreakers} texts of 1 to ${longestBreaker} characters`
    throw invalidField('drySequenceBreakers', expected, drySequenceBreakers)
  }
  if (typeof ignoreEos !== 'boolean') throw invalidField('ignoreEos', 'true or false', ignoreEos)
  if (capabilities.samplers === true) return
  const changed = samplingRows.find(
    ([name, { extra, default: off }]) => extra === true && sampling[name] !== off,
  )
  const field = changed?.[0] ?? (samplers.length > 0 ? 'samplers' : undefined)
  if (field === undefined) return
  throw unsupported(field, 'samplers', "this backend's samplers cannot do that")
}

const constraintTypes = ['gbnf', 'regex', 'json', 'json-schema', 'triggered-json']

/**
 * Checks a constraint; returns a promise if the backend takes longer.
 *
 * @param signal - aborted when the request has ended
 * @param tenant - the request's
 * @throws `invalid_request`, `unsupported`, or the backend's error
 */
export function checkConstraint(
  constraint: OutputConstraint,
  backend: Backend,
  signal: AbortSignal,
  tenant: string,
): Promise<void> | undefined {
  checkShape(constraint)
  if (backend.checkConstraint === undefined) {
    throw unsupported('constraint', 'grammar', 'this backend does not support grammars or schemas')
  }
  const fail = (error: unknown): never => {
    throw CllmError.from(error, 'backend_failed')
  }
  try {
    return backend.checkConstraint(constraint, signal, tenant)?.catch(fail)
  } catch (error) {
    return fail(error)
  }
}

function checkShape(constraint: OutputConstraint): void {
  if (typeof constraint !== 'object' || constraint === null) {
    throw invalidField('constraint', 'an object', constraint)
  }
  const { type } = constraint
  if (!constraintTypes.includes(type)) {
    throw invalidField('constraint.type', `one of ${constraintTypes.join(', ')}`, type)
  }
  if (type === 'gbnf') {
    const { grammar, root = 'root' } = constraint
    checkText('constraint.grammar', grammar)
    checkText('constraint.root', root)
  }
  if (type === 'regex') checkText('constraint.pattern', constraint.pattern)
  if (type === 'triggered-json') checkPattern('constraint.trigger', constraint.trigger)
  if (type === 'json-schema' || type === 'triggered-json') {
    let at = 'constraint'
    for (let json: EitherJson | undefined = constraint; json !== undefined; json = json.or) {
      checkJson(json, at)
      at += '.or'
    }
  }
}

function checkJson(json: SurroundedJson, field: string): void {
  if (typeof json !== 'object' || json === null) throw invalidField(field, 'an object', json)
  const { schema, before = '', closing = '', next = '' } = json
  checkPattern(`${field}.before`, before)
  checkText(`${field}.closing`, closing)
  checkText(`${field}.next`, next)
  const isObject = typeof schema === 'object' && schema !== null && !Array.isArray(schema)
  if (typeof schema === 'boolean' || isObject) return
  throw invalidField(`${field}.schema`, 'a JSON schema: an object, true or false', schema)
}

function checkText(field: string, value: unknown): void {
  if (typeof value !== 'string') throw invalidField(field, 'a text', value)
}

function checkPattern(field: string, value: unknown): void {
  const isPattern = attempt(() => typeof value === 'string' && RegExp(value) instanceof RegExp)
  if (isPattern !== true) throw invalidField(field, 'a regular expression', value)
}
