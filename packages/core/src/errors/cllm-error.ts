import { errorTable, type ErrorCode } from './error-table.js'
import { distance } from 'fastest-levenshtein'

const marker = Symbol.for('cllm.error')

/** An error as it travels between processes. */
export interface SerializedError {
  readonly code: ErrorCode
  readonly message: string
  readonly details?: Readonly<Record<string, unknown>>
}

/** Further properties of an error. */
export interface CllmErrorOptions {
  /** Facts for programs: `field`, `expected`, `received`, numbers. */
  readonly details?: Readonly<Record<string, unknown>>
  readonly cause?: unknown
}

/** The only error that cLLM throws on purpose. Its codes are those of {@link errorTable}. */
export class CllmError extends Error {
  readonly code: ErrorCode
  /** The HTTP status of its code. */
  readonly status: number
  readonly details: Readonly<Record<string, unknown>>

  constructor(code: ErrorCode, message: string, options: CllmErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause })
    this.name = 'CllmError'
    this.code = code
    this.status = errorTable[code].status
    this.details = options.details ?? {}
    Object.defineProperty(this, marker, { value: true })
  }

  /** Recognises errors of other copies of this package, which `instanceof` does not. */
  static isInstance(value: unknown): value is CllmError {
    return typeof value === 'object' && value !== null && marker in value
  }

  /** The error itself, or `internal` with it as the cause. */
  static from(value: unknown, code: ErrorCode = 'internal'): CllmError {
    if (CllmError.isInstance(value)) return value
    return new CllmError(code, messageOf(value), { cause: value })
  }

  /** As it travels between processes. */
  serialize(): SerializedError {
    return { code: this.code, message: this.message, details: this.details }
  }

  /** The error that was serialized on the other side: `internal` with its message where only a newer version has its code. */
  static deserialize({ code, message, details }: SerializedError): CllmError {
    const known = Object.hasOwn(errorTable, code) ? code : 'internal'
    return new CllmError(known, message, { details: details ?? {} })
  }
}

// Node prints the class of an error that nothing catches, and the bundles call it _CllmError.
Object.defineProperty(CllmError, 'name', { value: 'CllmError' })

/** The message of a cancelled request's error if no reason was given. */
export const cancelReason = 'The request was cancelled'

/** Why a signal was aborted: the message of the {@link CllmError} that it was aborted with. */
export function reasonOf(signal: AbortSignal | undefined): string | undefined {
  const reason: unknown = signal?.reason
  return CllmError.isInstance(reason) ? reason.message : undefined
}

/** The error of a request or call whose signal aborted. */
export const cancelled = (signal?: AbortSignal): CllmError =>
  new CllmError('cancelled', reasonOf(signal) ?? cancelReason)

/** The error of a request that arrives while an engine or the server is shutting down. */
export const takesNone = (): CllmError =>
  new CllmError('shutting_down', 'The engine takes no new requests')

/** The error of requests in flight when their engine is closed. */
export const shuttingDown = (): CllmError =>
  new CllmError('shutting_down', 'The engine is shutting down')

/** The event that ends a request with this error. */
export function failureOf(error: unknown): { type: 'error'; error: SerializedError } {
  return { type: 'error', error: CllmError.from(error).serialize() }
}

/** The message of a thrown error; of any other thrown value its text. */
export const messageOf = (thrown: unknown): string =>
  thrown instanceof Error ? thrown.message : String(thrown)

/** What a call returns; if it throws, the other value or undefined. */
export function attempt<Value, Other = undefined>(call: () => Value, other?: Other): Value | Other {
  try {
    return call()
  } catch {
    return other as Other
  }
}

const last = (name: string): string => name.slice(name.lastIndexOf('.') + 1)

/** Typing errors between two names; a right name in a wrong section counts as one. */
const errors = (name: string, candidate: string): number =>
  Math.min(distance(name, candidate), distance(last(name), last(candidate)) + 1)

/** Longer ones are no typing errors, and finding their distance takes long. */
const longestName = 256

/**
 * The candidate that was probably meant, or undefined when none is near.
 *
 * @param most - how many typing errors it may be away. Default: two, or a third of a longer name
 */
export function nearestName(name: string, candidates: Iterable<string>, most?: number) {
  if (name.length > longestName) return undefined
  let nearest: string | undefined
  const { length } = last(name)
  let fewest = Math.min(length, (most ?? Math.max(2, Math.ceil(length / 3))) + 1)
  for (const candidate of candidates) {
    const count = errors(name.toLowerCase(), candidate.toLowerCase())
    if (count < fewest) [nearest, fewest] = [candidate, count]
  }
  return nearest
}

/**
 * `; did you mean "X"?` with the candidate that was probably meant, or nothing when none is near.
 *
 * @param written - how the candidate is written; default: in quotation marks
 */
export function didYouMean(
  name: string,
  candidates: Iterable<string>,
  written: (nearest: string) => string = (nearest) => `"${nearest}"`,
): string {
  const nearest = nearestName(name, candidates)
  return nearest === undefined ? '' : `; did you mean ${written(nearest)}?`
}
