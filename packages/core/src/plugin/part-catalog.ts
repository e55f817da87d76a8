import { entryOf, ownEntry } from '../defined.js'
import type { PartContext, PartFactory, PartToken } from '../contracts/plugin.js'
import * as parts from '../engine/engine-parts.js'
import type { Clock, Logger } from '../contracts/services.js'
import { within } from '../clock.js'
import { CllmError, messageOf } from '../errors/cllm-error.js'
import type { ErrorCode } from '../errors/error-table.js'
import { checkMade, noSuchName } from './checks.js'
import * as tokens from '../tokens.js'

/** The parts of an engine that plug-ins can replace, by the names that settings use. */
export const replaceableParts: Readonly<Record<string, PartToken<unknown>>> = {
  admission: parts.ADMISSION,
  'kv-cache-manager': parts.KV_CACHE_MANAGER,
  logger: tokens.LOGGER,
  'prefix-index': parts.PREFIX_INDEX,
  tokenizer: tokens.TOKENIZER,
  'wait-predictor': parts.WAIT_PREDICTOR,
}

/** The methods that a part has to have, by the part's name. */
const needs: Readonly<Record<string, readonly string[]>> = {
  admission: ['checkCount', 'check'],
  'kv-cache-manager': ['lookUp', 'acquire', 'onAdvanced', 'truncate', 'release', 'evict', 'move'],
  logger: ['debug', 'info', 'warn', 'error'],
  'prefix-index': ['matches', 'planned', 'occupy', 'grow', 'unplan', 'drop', 'keep'],
  tokenizer: ['encode', 'decode', 'createDecoder', 'isEndOfGeneration', 'renderChat'],
  'wait-predictor': ['forecast', 'waitMs'],
}

/** The provided part that is used in place of each built-in one: the provided part's name by the built-in's. */
export type PartChoice = Readonly<Record<string, string>>

/** Parts of which all provided ones are used together, instead of one that replaces a built-in one. */
const additions: ReadonlyMap<PartToken<unknown>, string> = new Map<PartToken<unknown>, string>([
  [tokens.ENGINE_OBSERVER, 'engine-observer'],
  [tokens.MODEL_SOURCE, 'model-source'],
])

/** The parts that plug-ins provide, by token and name. */
export class PartCatalog {
  readonly #parts = new Map<PartToken<unknown>, Map<string, PartFactory<unknown>>>()

  /** @throws `plugin_conflict` when the token has a part of this name, `plugin_invalid` */
  add<T>(token: PartToken<T>, name: string, create: PartFactory<T>): void {
    const part = additions.get(token) ?? partName(token)
    const isNamed = typeof name === 'string' && name !== ''
    if (part === undefined || !isNamed || typeof create !== 'function') {
      const valid = [...Object.keys(replaceableParts), ...additions.values()].join(', ')
      const message = `provide: expected the token of one of ${valid}, a name and a function`
      throw new CllmError('plugin_invalid', message)
    }
    if (token === tokens.MODEL_SOURCE) checkScheme(name)
    const named = entryOf(this.#parts, token, () => new Map())
    if (named.has(name)) {
      const message = `A part named "${name}" is provided already for ${part}`
      throw new CllmError('plugin_conflict', message, { details: { part: name } })
    }
    named.set(name, (context) => {
      const made: unknown = create(context as PartContext<T>)
      // An unhandled rejection would end the process.
      if (made instanceof Promise) made.catch(() => {})
      if (typeof made !== 'object' || made === null || made instanceof Promise) {
        const message = `${part} "${name}": create made no object, instead got ${String(made)}`
        throw new CllmError('plugin_invalid', message, { details: { part: name } })
      }
      checkMade(part, name, made as Record<string, unknown>, ...(needs[part] ?? []))
      // No limit of time: calls of a model source download models, which may take hours.
      if (token === tokens.MODEL_SOURCE) return made
      const who = `${part} "${name}"`
      if (token === tokens.LOGGER) {
        return answerable(made, relogging(context.original() as Logger, who))
      }
      // A tokenizer's failure ends one request: unlike behind a KV cache's, slots are as they should be.
      const details = token === tokens.TOKENIZER ? {} : { part: who }
      return answerable(made, blaming(who, 'plugin_invalid', details), context.get(tokens.CLOCK))
    })
  }

  /**
   * The factory of the part that the settings choose; `undefined` keeps the built-in part.
   *
   * @throws `invalid_configuration` with the valid names when there is no such part
   */
  chosen<T>(token: PartToken<T>, choice: PartChoice): PartFactory<T> | undefined {
    const part = partName(token)
    const name = part === undefined ? undefined : choice[part]
    if (part === undefined || name === undefined) return undefined
    const named = this.#parts.get(token)
    const create = named?.get(name)
    if (create !== undefined) return create as PartFactory<T>
    throw unknown(`use.${part}`, name, [...(named?.keys() ?? [])])
  }

  /** The factories of all parts that are provided for a token, by name. */
  named<T>(token: PartToken<T>): ReadonlyMap<string, PartFactory<T>> {
    return (this.#parts.get(token) ?? new Map()) as ReadonlyMap<string, PartFactory<T>>
  }

  /** @throws `invalid_configuration` for a part that does not exist, or a name that is not provided */
  check(choice: PartChoice): void {
    for (const part of Object.keys(choice)) {
      const token = ownEntry(replaceableParts, part)
      if (token === undefined) throw unknown('use', part, Object.keys(replaceableParts))
      this.chosen(token, choice)
    }
  }
}

/** What a guarded call does in place of failing: it throws another error, or returns. */
type Failed = (call: string, cause: unknown, given: readonly unknown[]) => unknown

/** Throws an error that names the part and the call, unless the part has thrown one of cLLM's own. */
export const blaming =
  (who: string, code: ErrorCode, details: Readonly<Record<string, unknown>>): Failed =>
  (call, cause) => {
    if (CllmError.isInstance(cause)) throw cause
    const message = `${who}: ${call}: ${messageOf(cause)}`
    throw new CllmError(code, message, { details: { ...details, call }, cause })
  }

/** For a provided logger: when it fails, the original logger reports that once, and gets the lines. */
function relogging(original: Logger, who: string): Failed {
  let isTold = false
  return (level, cause, line) => {
    if (!isTold) original.error({ err: cause }, `${who} failed; what it does not take goes here`)
    isTold = true
    original[level as keyof Logger](...(line as Parameters<Logger['error']>))
  }
}

/** Timeout of an asynchronous call of a part, in milliseconds. */
const mostMs = 60_000

/** Objects that a part has, or makes, and that have calls of their own. */
const inner = new Set<PropertyKey>(['tokenizer', 'states', 'adapters', 'media', 'createDecoder'])

/**
 * Wraps a part so that its errors and timeouts name it: otherwise the policy or the backend that calls it
 * would be blamed.
 *
 * @param clock - limits asynchronous calls. Default: they have no limit
 */
export function answerable<Part extends object>(part: Part, failed: Failed, clock?: Clock): Part {
  const known = new WeakMap<object, object>()
  // A copy: a proxy of a frozen object may not return other methods. It has keys, as plug-ins spread what they replace.
  return new Proxy(Object.setPrototypeOf({ ...part }, part) as Part, {
    get(_, key) {
      const guarded = (call: () => unknown, ...given: readonly unknown[]): unknown => {
        const fail = (cause: unknown) => failed(String(key), cause, given)
        const late = () => fail(new Error(`it has not ended after ${mostMs / 1000} s`))
        try {
          const made = call()
          if (made instanceof Promise) {
            return (clock === undefined ? made : within(clock, mostMs, made, late)).catch(fail)
          }
          if (!inner.has(key) || typeof made !== 'object' || made === null) return made
          return entryOf(known, made, () => answerable(made, failed, clock))
        } catch (cause) {
          return fail(cause)
        }
      }
      const value = guarded(() => Reflect.get(part, key, part) as unknown)
      if (typeof value !== 'function') return value
      return (...given: readonly unknown[]): unknown =>
        guarded(() => Reflect.apply(value, part, given) as unknown, ...given)
    },
  })
}

/** Checks a model source's scheme: a single letter would be a drive of Windows. */
function checkScheme(name: string): void {
  if (!/^[a-z][a-z0-9+.-]+$/.test(name)) {
    const message = `The model source "${name}": expected a scheme of small letters and digits, such as "s3"`
    throw new CllmError('plugin_invalid', message)
  }
  if (name !== 'hf') return
  throw new CllmError('plugin_conflict', 'The scheme "hf" is built in: hf:owner/repository')
}

const partName = (token: PartToken<unknown>): string | undefined =>
  Object.keys(replaceableParts).find((name) => replaceableParts[name] === token)

const unknown = (field: string, name: string, valid: readonly string[]): CllmError =>
  noSuchName(field, name, valid.toSorted(), 'no plug-in provides one')
