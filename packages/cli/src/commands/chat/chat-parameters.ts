import { CllmError } from '@cllm/core'
import { requestDefaults } from '../../config/options/request-defaults.js'
import { integer, type ValueFormat } from '../../config/options/value-format.js'
import { suggestion } from '../../config/messages.js'

const formats: Readonly<Record<string, ValueFormat<unknown>>> = {
  ...Object.fromEntries(
    Object.entries(requestDefaults).map(([name, { format }]) => [name, format]),
  ),
  seed: integer(0, 2 ** 32 - 1),
}

/** Ollama's names for the same. */
const others: Readonly<Record<string, string>> = {
  num_predict: 'max_tokens',
  repeat_penalty: 'repetition_penalty',
}

/** The parameters that `/set parameter` takes. */
export const parameterNames: readonly string[] = [...Object.keys(formats), 'stop']

/**
 * Reads a parameter as a field of `POST /v1/chat/completions`.
 *
 * @throws CllmError `invalid_request` for an unknown name or a value out of range
 */
export function readParameter(
  given: string,
  text: string,
): readonly [name: string, value: unknown] {
  const name = others[given] ?? given
  if (name === 'stop') return [name, text]
  const format = formats[name]
  if (format === undefined) {
    const meant = suggestion(name, parameterNames)
    throw wrong(`unknown parameter ${given}${meant}: one of ${parameterNames.join(', ')}`)
  }
  try {
    return [name, format.read(text)]
  } catch (error) {
    throw wrong(`${given}: ${(error as Error).message}, got ${text}`)
  }
}

/** What is wrong with a command. */
export const wrong = (message: string): CllmError => new CllmError('invalid_request', message)
