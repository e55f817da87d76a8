import { CllmError } from '../errors/cllm-error.js'
import { didYouMean } from '../errors/did-you-mean.js'

const example = '[koaTransport({ port: 8080, protocols: [openAiProtocol()] })]'

/**
 * Checks the parts of a server that JavaScript, which has no types, may have wrong.
 *
 * @param names - all parts that there are
 * @param needed - of each of these lists one must be given
 * @throws `invalid_configuration` for a part that is unknown, missing or no list of transports
 */
export function checkServerParts(
  parts: object,
  names: readonly string[],
  needed: readonly (readonly string[])[],
): void {
  const unknown = Object.keys(parts).find((name) => !names.includes(name))
  if (unknown !== undefined) {
    const meant = didYouMean(unknown, names)
    throw wrong(unknown, `there is no part "${unknown}" (there are ${names.join(', ')})${meant}`)
  }
  const missing = needed.find((names) => !names.some((name) => name in parts))
  if (missing !== undefined) throw wrong(missing[0]!, `${missing.join(' or ')} is missing`)
  const { transports } = parts as { readonly transports?: unknown }
  if (transports === undefined) {
    throw wrong('transports', `transports is missing: expected a list such as ${example}`)
  }
  if (!Array.isArray(transports) || transports.some((one) => typeof one !== 'function')) {
    throw wrong('transports', `transports: expected a list such as ${example}`)
  }
}

function wrong(field: string, problem: string): CllmError {
  const message = `createServer: ${problem}`
  return new CllmError('invalid_configuration', message, { details: { field } })
}
