import { type ModelPreset, defined, type Logger, samplingRows, CllmError } from '@cllm/core'
import type { z } from 'zod'
import { UnknownFields, type JsonObject } from '../../fields/fields.js'
import { unsupported, expectedField } from '../../request/refusals.js'
import { type optionsSchema, toSettings, untagged } from './ollama-shared.js'
import { buildRequest } from '../../request/build-request.js'

/** The Modelfile of a model or preset. */
export function modelfileOf(name: string, model: ModelPreset | undefined): string {
  return [
    `FROM ${model?.from ?? untagged(name)}`,
    ...(model?.system === undefined ? [] : [`SYSTEM ${quoted(model.system)}`]),
    ...parameterLines(model).map(([key, value]) => `PARAMETER ${key} ${quoted(String(value))}`),
    ...(model?.messages ?? []).map(({ role, content }) => `MESSAGE ${role} ${quoted(content)}`),
  ].join('\n')
}

/** Quotes a text if reading it would change it otherwise. */
const quoted = (text: string): string =>
  text !== text.trim() || /\n|^"|^$/.test(text) ? `"""${text}"""` : text

/** The `PARAMETER`s of a preset; each stop text has a line of its own. */
export const parameterLines = (preset: ModelPreset | undefined) =>
  Object.entries(parametersOf(preset)).flatMap(([key, value]) =>
    [value].flat().map((one) => [key, one] as const),
  )

/** A preset that an Ollama client made, with the parameters as it sent them. */
export interface OllamaPreset extends ModelPreset {
  readonly parameters: JsonObject
}

/** Adds parameters, checked by `parseFields`, to a preset, so that they apply in every protocol. */
export function withParameters(
  preset: ModelPreset,
  parameters: z.output<typeof optionsSchema>,
  logger: Logger,
): OllamaPreset {
  const settings = toSettings({ options: parameters }, new UnknownFields(), logger)
  const nothing = { maxTokens: Infinity, sampling: {} }
  const { sampling, stop } = buildRequest({ text: '' }, settings, nothing)
  return { ...preset, maxTokens: settings.maxTokens, sampling, stop, parameters }
}

/** The parameters of a preset under Ollama's names. */
export function parametersOf(preset: ModelPreset | undefined): OllamaPreset['parameters'] {
  if (preset === undefined) return {}
  if ('parameters' in preset) return (preset as OllamaPreset).parameters
  const { maxTokens, stop, sampling = {} } = preset
  const named = samplingRows.map(([name, { wire, llama = wire }]) => [llama, sampling[name]])
  return defined({ num_predict: maxTokens, stop, ...Object.fromEntries(named) })
}

/** Refuses Ollama's templates; an empty one counts as absent. */
export function refuseTemplate(template: string | undefined): void {
  if ((template ?? '') === '') return
  const how =
    'conversations are written by the chat template of the GGUF file, or of --chat-template'
  throw unsupported('template', `Ollama's Go templates are not read: ${how}`)
}

/** The content of a Modelfile, which does not include the name of the model. */
export interface Modelfile {
  readonly from: string
  readonly system?: string | undefined
  readonly template?: string | undefined
  readonly parameters: Readonly<Record<string, unknown>>
  readonly messages: readonly { readonly role: string; readonly content: string }[]
}

const quotes = '"""'

/**
 * Reads a Modelfile: `FROM`, `PARAMETER`, `SYSTEM`, `TEMPLATE` and `MESSAGE`; `LICENSE` and `REQUIRES` are ignored.
 *
 * @throws `unsupported` for `ADAPTER`, `invalid_request` for any other instruction
 */
export function readModelfile(text: string): Modelfile {
  const parameters: Record<string, unknown> = {}
  const messages: { role: string; content: string }[] = []
  let file: Partial<Modelfile> = {}
  for (const { word, value } of instructionsOf(text)) {
    const [, first = '', rest = ''] = /^(\S+)\s+([\s\S]*)$/.exec(value) ?? []
    switch (word) {
      case 'FROM':
      case 'SYSTEM':
      case 'TEMPLATE':
        file = { ...file, [word.toLowerCase()]: value }
        break
      case 'PARAMETER':
        // the only parameter that may be repeated, and that is always a text
        if (first === 'stop') parameters[first] = [parameters[first] ?? [], unquoted(rest)].flat()
        else parameters[first] = readValue(rest)
        break
      case 'MESSAGE':
        messages.push({ role: first, content: unquoted(rest) })
        break
      case 'LICENSE':
      case 'REQUIRES':
        break
      default: {
        const code = word === 'ADAPTER' ? 'unsupported' : 'invalid_request'
        const expected = 'FROM, PARAMETER, SYSTEM, TEMPLATE or MESSAGE'
        const message = `modelfile: expected ${expected}, instead got ${word.slice(0, 40)}`
        throw new CllmError(code, message, { details: { field: 'modelfile' } })
      }
    }
  }
  if (file.from === undefined) {
    throw expectedField('modelfile', 'FROM and the name of a model')
  }
  return { ...file, from: file.from, parameters, messages }
}

function* instructionsOf(text: string) {
  const lines = text.split('\n')
  for (let at = 0; at < lines.length; at++) {
    const line = lines[at]!.trimStart()
    if (line === '' || line.startsWith('#')) continue
    const [, word = '', rest = ''] = /^(\w+)\s*(.*)$/s.exec(line) ?? []
    let value = rest
    const begin = value.indexOf(quotes)
    if (begin >= 0 && value.indexOf(quotes, begin + 3) < 0) {
      while (at + 1 < lines.length) {
        value += `\n${lines[++at]!}`
        if (lines[at]!.includes(quotes)) break
      }
    }
    yield { word: word.toUpperCase(), value: unquoted(value) }
  }
}

function unquoted(value: string): string {
  const text = value.trim()
  const mark = text.startsWith(quotes) ? quotes : '"'
  const isQuoted = text.length >= 2 * mark.length && text.startsWith(mark) && text.endsWith(mark)
  return isQuoted ? text.slice(mark.length, -mark.length) : text
}

function readValue(given: string): unknown {
  const text = unquoted(given)
  if (text === 'true' || text === 'false') return text === 'true'
  return text !== '' && Number.isFinite(Number(text)) ? Number(text) : text
}
