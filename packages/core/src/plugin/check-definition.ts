import type { Definition } from '../contracts/definition.js'
import { CllmError } from '../errors/cllm-error.js'

/** @throws `plugin_invalid` when it cannot be half of a policy */
export function checkHalf(kind: string, half: Definition<unknown>): void {
  checkDefinition(kind, half)
  if (/^[^+\s]+$/.test(half.name)) return
  const message = `The name of the ${kind} "${half.name}": expected neither "+" nor spaces in it`
  throw new CllmError('plugin_invalid', message)
}

/** @throws `plugin_invalid` when a part of it is missing or is of the wrong kind */
export function checkDefinition(
  kind: string,
  definition: Omit<Definition<unknown>, 'create'> & { readonly create: unknown },
): void {
  const { name, doc, options } = definition ?? {}
  const isText = (value: unknown) => typeof value === 'string' && value !== ''
  const isSchema =
    options === undefined ||
    (typeof options?.parse === 'function' && typeof options.shape === 'object')
  if (isText(name) && isText(doc) && isSchema && typeof definition.create === 'function') return
  const message = `${a(kind)} is registered as { name, doc, options, create }: two texts, an object schema if it has options, and a function that makes it`
  throw new CllmError('plugin_invalid', message)
}

/** @throws `plugin_conflict` when there is one of this name */
export function checkFree(taken: ReadonlyMap<string, unknown>, kind: string, name: string): void {
  if (!taken.has(name)) return
  const message = `${a(kind)} named "${name}" is registered already`
  throw new CllmError('plugin_conflict', message, { details: { [kind]: name } })
}

/**
 * What `create` of a definition made: in plain JavaScript it may have forgotten to return it.
 *
 * @param needs - what it has: its name, methods
 * @throws `plugin_invalid` when it lacks one of these
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
  const what = needs.map((need) => withArticle(need === 'name' ? need : `${need} method`))
  const message = `${kind} "${name}": create made no ${kind}, which has ${what.join(' and ')}`
  throw new CllmError('plugin_invalid', message, { details: { [kind]: name } })
}

const withArticle = (what: string): string => `${/^[aeiou]/.test(what) ? 'an' : 'a'} ${what}`

/** The kind with its article, as a sentence begins. */
const a = (kind: string): string => `A${withArticle(kind).slice(1)}`
