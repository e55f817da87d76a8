import { CllmError } from '../errors/cllm-error.js'

/**
 * What `create` of a definition made: in plain JavaScript it may have forgotten to return it.
 *
 * @param isNamed - whether it needs a `name`, too
 * @throws `plugin_invalid` when it lacks this method, or the name
 */
export function checkMade<Made extends object>(
  kind: string,
  name: string,
  made: Made,
  method: keyof Made & string,
  isNamed = false,
): Made {
  const isWhole = typeof (made as Partial<Made> | undefined)?.[method] === 'function'
  const hasName = !isNamed || typeof (made as { name?: unknown } | undefined)?.name === 'string'
  if (isWhole && hasName) return made
  const article = /^[aeiou]/.test(method) ? 'an' : 'a'
  const what = isNamed ? `a name and ${article} ${method} method` : `${article} ${method} method`
  const message = `${kind} "${name}": create made no ${kind}, which has ${what}`
  throw new CllmError('plugin_invalid', message, { details: { [kind]: name } })
}
