import type { Continuation } from '../../contracts/engine/generate-request.js'
import type { TokenId, Tokenizer } from '../../contracts/model/tokenizer.js'
import { CllmError } from '../../errors/cllm-error.js'
import type { Backend, BackendCapabilities } from '../../contracts/model/backend.js'
import { type SamplingParams, samplingRows } from '../../contracts/model/sampling.js'
import type { OutputConstraint, SurroundedJson } from '../../contracts/model/output-constraint.js'

/** What a number may be. */
interface NumberRange {
  readonly min?: number
  readonly max?: number
  readonly integer?: boolean
}

/** Throws `invalid_request` naming the field, what was expected and what came. */
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

/** The error for a field that is not what was expected. */
export function invalidField(field: string, expected: string, received: unknown): CllmError {
  // JSON would show NaN and infinity as null.
  const isNumber = typeof received === 'number'
  const shown = isNumber ? String(received) : (JSON.stringify(received) ?? typeof received)
  const short = shown.length > 80 ? `${shown.slice(0, 77)}…` : shown
  return new CllmError('invalid_request', `${field}: expected ${expected}, instead got ${short}`, {
    details: { field, expected, received: short },
  })
}

/** Throws `invalid_token` naming the field and the first id that is outside the vocabulary. */
export function checkTokens(field: string, tokens: readonly TokenId[], tokenizer: Tokenizer): void {
  const size = tokenizer.vocabularySize
  const at = tokens.findIndex((id) => !Number.isInteger(id) || id < 0 || id >= size)
  if (at === -1) return
  const expected = `token ids from 0 to ${size - 1}`
  const received = String(tokens[at])
  const message = `${field}: expected ${expected}, instead got ${received}`
  throw new CllmError('invalid_token', message, { details: { field, expected, received } })
}

/** Throws `invalid_request` or `invalid_token` for what cannot be taken up. */
export function checkContinuation(
  continued: Continuation | undefined,
  maxTokens: number,
  { tokenizer }: { readonly tokenizer: Tokenizer },
): void {
  if (continued === undefined) return
  const { tokens, elapsedMs, firstTokenMs = 0 } = continued
  if (!Array.isArray(tokens)) {
    throw invalidField('continued.tokens', 'an array of token ids', tokens)
  }
  checkTokens('continued.tokens', tokens, tokenizer)
  checkNumber('continued.tokens.length', tokens.length, { max: maxTokens - 1, integer: true })
  checkNumber('continued.elapsedMs', elapsedMs, { min: 0 })
  checkNumber('continued.firstTokenMs', firstTokenMs, { min: 0, max: elapsedMs })
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
  checkBreakers(drySequenceBreakers)
  if (typeof ignoreEos !== 'boolean') throw invalidField('ignoreEos', 'true or false', ignoreEos)
  if (capabilities.samplers === true) return
  const changed = samplingRows.find(
    ([name, { extra, default: off }]) => extra === true && sampling[name] !== off,
  )
  if (changed !== undefined) throw unsupported(changed[0])
  if (samplers.length > 0) throw unsupported('samplers')
}

function checkBreakers(breakers: readonly string[]): void {
  const isText = (text: unknown) =>
    typeof text === 'string' && text !== '' && text.length <= longestBreaker
  if (Array.isArray(breakers) && breakers.length <= mostBreakers && breakers.every(isText)) return
  const expected = `an array of up to ${mostBreakers} texts of 1 to ${longestBreaker} characters`
  throw invalidField('drySequenceBreakers', expected, breakers)
}

function unsupported(field: string): CllmError {
  const message = `${field}: this backend's samplers cannot do that`
  return new CllmError('unsupported', message, { details: { field, capability: 'samplers' } })
}

/** The part of a backend that validates constraints. */
export type ConstraintJudge = Pick<Backend, 'capabilities' | 'checkConstraint'>

const types = ['gbnf', 'regex', 'json', 'json-schema', 'triggered-json']

/** Throws `invalid_request`, `unsupported` or what the backend has against the constraint. */
export function checkConstraint(
  constraint: OutputConstraint | undefined,
  backend: ConstraintJudge,
): void {
  if (constraint === undefined) return
  checkShape(constraint)
  if (!backend.capabilities.grammar || backend.checkConstraint === undefined) {
    const message = 'constraint: this backend does not support grammars or schemas'
    throw new CllmError('unsupported', message, {
      details: { field: 'constraint', capability: 'grammar' },
    })
  }
  backend.checkConstraint(constraint)
}

function checkShape(constraint: OutputConstraint): void {
  if (typeof constraint !== 'object' || constraint === null) {
    throw invalidField('constraint', 'an object', constraint)
  }
  const { type } = constraint
  if (!types.includes(type))
    throw invalidField('constraint.type', `one of ${types.join(', ')}`, type)
  if (type === 'gbnf') {
    const { grammar, root = 'root' } = constraint
    if (typeof grammar !== 'string') throw invalidField('constraint.grammar', 'a text', grammar)
    if (typeof root !== 'string') throw invalidField('constraint.root', 'a text', root)
  }
  if (type === 'regex' && typeof constraint.pattern !== 'string') {
    throw invalidField('constraint.pattern', 'a text', constraint.pattern)
  }
  if (type === 'triggered-json') checkTrigger(constraint)
  if (type === 'json-schema' || type === 'triggered-json') {
    checkJson(constraint, 'constraint')
    for (
      let { or } = constraint, at = 'constraint.or';
      or !== undefined;
      { or } = or, at += '.or'
    ) {
      if (typeof or !== 'object' || or === null) throw invalidField(at, 'an object', or)
      checkJson(or, at)
    }
  }
}

function checkJson(
  { schema, before = '', closing = '', next = '' }: SurroundedJson,
  field: string,
): void {
  if (!isPattern(before)) throw invalidField(`${field}.before`, 'a regular expression', before)
  if (typeof closing !== 'string') throw invalidField(`${field}.closing`, 'a text', closing)
  if (typeof next !== 'string') throw invalidField(`${field}.next`, 'a text', next)
  const isObject = typeof schema === 'object' && schema !== null && !Array.isArray(schema)
  if (typeof schema === 'boolean' || isObject) return
  throw invalidField(`${field}.schema`, 'a JSON schema: an object, true or false', schema)
}

function checkTrigger({ trigger }: Extract<OutputConstraint, { trigger: unknown }>): void {
  if (!isPattern(trigger)) throw invalidField('constraint.trigger', 'a regular expression', trigger)
}

function isPattern(value: unknown): boolean {
  try {
    return typeof value === 'string' && RegExp(value) instanceof RegExp
  } catch {
    return false
  }
}
