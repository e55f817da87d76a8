import { CllmError } from '../errors/cllm-error.js'

/**
 * What `create` of a definition made: in plain JavaScript it may have forgotten to return it.
 *
 * @throws `plugin_invalid` when it lacks this method
 */
export function checkMade<Made extends object>(
  kind: string,
  name: string,
  made: Made,
  method: keyof Made & string,
): Made {
  if (typeof (made as Partial<Made> | undefined)?.[method] === 'function') return made
  const message = `${kind} "${name}": create made no ${kind}, which has a ${method} method`
  throw new CllmError('plugin_invalid', message, { details: { [kind]: name } })
}
