import type { Definition, ObjectSchema, OptionsSchema } from '../contracts/plugin.js'
import type {
  Placement,
  RoutedRequest,
  RouterPolicy,
  WorkerView,
} from '../contracts/scheduling/decisions.js'
import { CllmError, messageOf, didYouMean } from '../errors/cllm-error.js'

/** Options that a user gave, before they are checked. */
export type GivenOptions = Readonly<Record<string, unknown>>

/** A definition of any kind: what its `create` takes differs. */
export type AnyDefinition = Omit<Definition<unknown>, 'create'> & { readonly create: unknown }

/** @throws `plugin_invalid` when the definition cannot be an order or a batching of a policy */
export function checkHalf(kind: string, half: Definition<unknown>): void {
  checkDefinition(kind, half)
  if (/^[^+\s]+$/.test(half.name)) return
  const message = `The name of the ${kind} "${half.name}": expected neither "+" nor spaces in it`
  throw new CllmError('plugin_invalid', message)
}

/** @throws `plugin_invalid` when a field of the definition is missing or has the wrong type */
export function checkDefinition(kind: string, definition: AnyDefinition): void {
  const { name, doc, options } = definition ?? {}
  const isText = (value: unknown) => typeof value === 'string' && value !== ''
  const isSchema =
    options === undefined ||
    (typeof options?.parse === 'function' && typeof options.shape === 'object')
  if (isText(name) && isText(doc) && isSchema && typeof definition.create === 'function') return
  const message = `${a(kind)} is registered as { name, doc, options, create }: two texts, an object schema if it has options, and a function that makes it`
  throw new CllmError('plugin_invalid', message)
}

/**
 * The error for an unknown name.
 *
 * @param none - the sentence for users where there are no names to choose from
 * @param more - words on what else is valid, besides the names
 */
export function noSuchName(
  field: string,
  name: string,
  valid: readonly string[],
  none: string,
  more = '',
): CllmError {
  const expected = valid.length === 0 ? none : `expected one of ${valid.join(', ')}${more}`
  const message = `${field}: ${expected}, instead got "${name}"${didYouMean(name, valid)}`
  return new CllmError('invalid_configuration', message, { details: { field, valid } })
}

/** @throws `plugin_conflict` when the name is taken */
export function checkFree(taken: ReadonlyMap<string, unknown>, kind: string, name: string): void {
  if (!taken.has(name)) return
  const message = `${a(kind)} named "${name}" is registered already`
  throw new CllmError('plugin_conflict', message, { details: { [kind]: name } })
}

/**
 * Checks what `create` of a definition returned: in plain JavaScript it may have forgotten to return it.
 *
 * @param needs - properties and methods that it has to have
 * @throws `plugin_invalid` when one of them is missing
 */
export function checkMade<Made extends object>(
  kind: string,
  name: string,
  made: Made,
  ...needs: readonly (keyof Made & string)[]
): Made {
  const has = (need: keyof Made & string): boolean =>
    typeof (made as Partial<Made> | undefined)?.[need] === (need === 'name' ? 'string' : 'function')
  if (needs.every(has)) return made
  // An unhandled rejection would end the process.
  if (made instanceof Promise) made.catch(() => {})
  const what = needs.map((need) => withArticle(need === 'name' ? need : `${need} method`))
  const message = `${kind} "${name}": create made no ${kind}, which has ${what.join(' and ')}`
  throw new CllmError('plugin_invalid', message, { details: { [kind]: name } })
}

const withArticle = (what: string): string => `${/^[aeiou]/.test(what) ? 'an' : 'a'} ${what}`

/** The kind with its article, at the begin of a sentence. */
const a = (kind: string): string => `A${withArticle(kind).slice(1)}`

/** A problem of one option, as zod and similar libraries report it. */
interface Issue {
  /** The option's name, and the path within its value. */
  readonly path: readonly string[]
  readonly message: string
}

/** The problems in an error of a schema: each issue of zod and similar libraries; else the error's message. */
export function issuesOf(error: unknown): Issue[] {
  const issues = (error as { issues?: unknown } | undefined)?.issues
  if (!Array.isArray(issues)) return [{ path: [], message: messageOf(error) }]
  return issues.map((issue: { path?: readonly PropertyKey[]; message?: string }) => {
    return { path: (issue.path ?? []).map(String), message: String(issue.message) }
  })
}

/** The problems in an error of a schema, each in words, with the name of its option. */
export function optionProblems(error: unknown): string[] {
  return issuesOf(error).map(({ path, message }) => {
    const problem = message.replace(/^Invalid input: /, '')
    return path.length === 0 ? problem : `option "${path.join('.')}": ${problem}`
  })
}

/** The schema of a definition without options. */
const noOptions: ObjectSchema<object> = { parse: () => ({}), shape: {} }

/**
 * Parses options: checks them and adds defaults. Also checks that the schema dropped none silently, as zod's
 * `z.object` does with unknown options.
 *
 * @param schema - default: there are no options
 * @param own - options that the schema has to know. Default: all
 * @throws what the schema throws, and TypeError for an option that it dropped
 */
export function parseKnown<Options>(
  schema: OptionsSchema<Options> = noOptions as ObjectSchema<Options>,
  given: GivenOptions,
  own: GivenOptions = given,
): Options {
  const parsed = schema.parse(given)
  const { shape } = schema as Partial<ObjectSchema<Options>>
  if (shape === undefined) return parsed
  const valid = Object.keys(shape)
  const known = new Set([...valid, ...Object.keys(parsed ?? {})])
  const dropped = Object.keys(own).find((option) => !known.has(option))
  if (dropped === undefined) return parsed
  throw new TypeError(noSuchOption(dropped, valid))
}

/** The sentence that rejects an unknown option and names the valid ones. */
export function noSuchOption(option: string, valid: readonly string[]): string {
  const known = valid.length === 0 ? 'it has no options' : `its options are ${valid.join(', ')}`
  return `there is no option "${option}" (${known})${didYouMean(option, valid)}`
}

/**
 * Splits a policy's options among its parts (order and batching), checked and with defaults.
 *
 * @param policy - the policy's name, for errors
 * @throws `invalid_policy` with every problem, and the valid options in `details.valid`
 */
export function parseOptions<Parts extends readonly Definition<unknown>[]>(
  policy: string,
  parts: readonly [...Parts],
  given: GivenOptions,
): { [Index in keyof Parts]: GivenOptions } {
  const valid = parts.flatMap(({ options }) => Object.keys(options?.shape ?? {}))
  const problems: string[] = []
  let cause: unknown
  const parsed = parts.map(({ options }) => {
    try {
      return options?.parse(pick(given, Object.keys(options.shape))) ?? {}
    } catch (error) {
      cause ??= error
      for (const { path, message } of issuesOf(error)) problems.push([...path, message].join(': '))
      return {}
    }
  })
  const unknown = Object.keys(given).filter((option) => !valid.includes(option))
  if (unknown.length > 0) {
    const names = unknown.map((option) => `"${option}"`).join(', ')
    problems.push(`Unrecognized key${unknown.length > 1 ? 's' : ''}: ${names}`)
  }
  if (problems.length === 0) return parsed as { [Index in keyof Parts]: GivenOptions }
  const known = valid.length === 0 ? 'it has no options' : `its options are ${valid.join(', ')}`
  const meant = unknown[0] === undefined ? '' : didYouMean(unknown[0], valid)
  const message = `Wrong options for "${policy}": ${problems.join('; ')} (${known})${meant}`
  throw new CllmError('invalid_policy', message, { details: { policy, valid }, cause })
}

const pick = (given: GivenOptions, names: readonly string[]): GivenOptions =>
  Object.fromEntries(Object.entries(given).filter(([name]) => names.includes(name)))

/**
 * Passes on what a method of a plug-in returned, unless it is a promise, whose unhandled rejection would
 * end the process.
 *
 * @throws TypeError that names the method
 */
export function synchronous<T>(result: T, method: string): T {
  if (!(result instanceof Promise)) return result
  result.catch(() => {})
  throw new TypeError(`${method} returned a promise: it is synchronous`)
}

/** Whether an error is a part's own, even if another plug-in called the part, as policies do `remainingTokens`. */
export const isOfPart = (error: unknown): boolean =>
  CllmError.isInstance(error) && error.details['part'] !== undefined

/**
 * Asks a router where to place a request, and checks its answer.
 *
 * @param views - the workers that can take the request, at least one
 * @throws TypeError that shows an impossible answer, and what the router throws
 */
export function askRouter(
  router: RouterPolicy,
  request: RoutedRequest,
  views: readonly WorkerView[],
  now: number,
): Placement {
  const answer = synchronous(router.place(request, views, now), 'place')
  if (isPossible(answer, views)) return answer
  const expected = '{ worker } of those it was given, { holdMs } from 0, or { refuse } with a text'
  throw new TypeError(`place: expected ${expected}, instead got ${shown(answer)}`)
}

/** Whether a router's answer is possible: a plug-in in plain JavaScript may return anything. */
function isPossible(answer: Placement, views: readonly WorkerView[]): boolean {
  if (typeof answer !== 'object' || answer === null) return false
  if ('holdMs' in answer) return answer.holdMs >= 0
  if ('refuse' in answer) {
    const { refuse, retryMs = 0 } = answer
    return typeof refuse === 'string' && refuse !== '' && retryMs >= 0 && retryMs < Infinity
  }
  return views.some(({ id }) => id === answer.worker)
}

/** An answer of a plug-in, as errors show it. */
export function shown(answer: unknown): string {
  if (typeof answer !== 'object' || answer === null) return String(answer)
  const fields = Object.entries(answer).map(([key, value]) => `${key}: ${String(value)}`)
  return fields.length === 0 ? '{}' : `{ ${fields.join(', ')} }`
}
