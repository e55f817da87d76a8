import { existsSync } from 'node:fs'
import { parseKeepAlive, presetParameterNames, presetParameters } from '@cllm/http-koa'
import { CllmError, type ModelPreset } from '@cllm/core'
import { engineOptions, modelOptions } from './options/engine-options.js'
import { option, placeOptions, type PlacedOption } from './options/option.js'
import {
  accepts,
  format,
  isRecord,
  parsePairs,
  readPair,
  recordOf,
  splitAtCommas,
  type ValueFormat,
  parseJson,
} from './options/value-format.js'
import { describeValue, suggestion } from './messages.js'

/** Settings of one of several models. */
export interface OwnSettings {
  readonly chat_template?: string | null
  readonly keep_alive?: string | number
  readonly backend?: string
  readonly backend_options?: Readonly<Record<string, unknown>>
  /** Settings of `engine`. */
  readonly [setting: string]: unknown
}

/** A model served by name. */
export interface ServedModel extends OwnSettings {
  readonly spec: string
}

/**
 * Parses `NAME=SPEC`, where NAME may be `owner/model`; undefined if the text before the `=` is part of a
 * path, as in `./a/b=c.gguf` or `a/b=c.gguf` where there is such a file.
 */
export const readModel = (text: string): readonly [name: string, value: string] | undefined => {
  const [, name, value] = /^([^=/\\~]+|[^=/\\~.][^=/\\~]*\/[^=/\\~]+)=(.+)$/.exec(text) ?? []
  if (name?.includes('/') && existsSync(text)) return undefined
  return name === undefined || value === undefined ? undefined : [name.trim(), value.trim()]
}

/** Models by name. `checkModels` checks each model's settings. */
export const servedModels = () =>
  recordOf<ServedModel>(
    'names with their specs',
    (one) => isRecord(one) && typeof one['spec'] === 'string',
    { parse: parsePairs, placeholder: 'NAME=SPEC,…' },
  )

/** The same names with other values. */
const changed = <From, To>(
  values: Readonly<Record<string, From>>,
  change: (value: From, name: string) => To,
) => Object.fromEntries(Object.entries(values).map(([name, value]) => [name, change(value, name)]))

/** A model with changed values of its settings. Unknown settings stay, to be reported. */
const withSettings = (
  model: Readonly<Record<string, unknown>>,
  change: (option: PlacedOption, value: unknown) => unknown,
) =>
  changed(model, (value, name) => {
    const option = settingsOfModel.get(name)
    return option === undefined ? value : change(option, value)
  })

/** Expands a spec to a model without settings of its own. */
export const normalizeServed = (value: unknown): unknown => {
  if (!isRecord(value)) return value
  return changed(value, (given) => {
    const model = typeof given === 'string' ? { spec: given } : given
    if (!isRecord(model)) return model
    return withSettings(model, ({ normalize }, one) => normalize(one))
  })
}

/** Makes the paths in the models absolute. Values of a wrong type stay, to be reported. */
export const resolveServed = (
  models: Readonly<Record<string, ServedModel>>,
  folder: string,
): Readonly<Record<string, ServedModel>> => {
  const absolute = ({ format, resolve }: PlacedOption, value: unknown): unknown =>
    accepts(format, value) ? resolve(value, folder) : value
  return changed(models, (model) => withSettings(model, absolute) as ServedModel)
}

/** Model names by alias; null is the default model. */
export const aliases = () =>
  recordOf<string | null>(
    'aliases with the names of models',
    (name) => name === null || typeof name === 'string',
    { parse: splitAtCommas, placeholder: 'ALIAS=NAME' },
  )

/** Converts a list of `ALIAS=NAME` and `ALIAS` to a map. */
export const normalizeAliases = (value: unknown): unknown =>
  Array.isArray(value) && value.every((one) => typeof one === 'string')
    ? Object.fromEntries(value.map((one) => readPair(one) ?? [one, null]))
    : value

/** How long a model stays in memory. */
export const keepAlive = (): ValueFormat<string | number> =>
  format(
    'a number of seconds or a duration such as 5m',
    (value) => parseKeepAlive(value) !== undefined,
    { placeholder: 'DURATION' },
  )

/** A preset as the configuration has it. */
export interface PresetSettings {
  readonly from: string
  readonly system?: string
  readonly parameters?: Readonly<Record<string, unknown>>
}

const settings = ['from', 'system', 'parameters']

/** Presets by name. {@link checkPresets} checks the settings of each. */
export const presets = () =>
  recordOf<PresetSettings>('names with `{ from, system, parameters }`', isRecord, {
    parse: parseJson,
    placeholder: 'JSON',
  })

/** Problems with presets, each with the name of its preset. */
export function checkPresets(label: string, all: Readonly<Record<string, PresetSettings>>) {
  return Object.entries(all).flatMap(([name, preset]) =>
    [...problemsOf(preset)].map((problem) => `${label}: ${name}: ${problem}`),
  )
}

function* problemsOf(preset: PresetSettings): Generator<string> {
  const { from, system, parameters = {} } = preset
  for (const name of Object.keys(preset)) {
    if (!settings.includes(name)) yield `unknown setting ${name}${suggestion(name, settings)}`
  }
  if (typeof from !== 'string') {
    yield `from: expected the name of a model, got ${describeValue(from)}`
  }
  if (system !== undefined && typeof system !== 'string') {
    yield `system: expected a text, got ${describeValue(system)}`
  }
  if (!isRecord(parameters)) {
    yield `parameters: expected names with values, got ${describeValue(parameters)}`
    return
  }
  for (const name of Object.keys(parameters)) {
    if (presetParameterNames.includes(name)) continue
    yield `unknown parameter ${name}${suggestion(name, presetParameterNames)}`
  }
  try {
    presetParameters(parameters)
  } catch (error) {
    yield `parameters: ${CllmError.from(error).message}`
  }
}

/** Converts presets for the server. */
export const toPresets = (all: Readonly<Record<string, PresetSettings>>): readonly ModelPreset[] =>
  Object.entries(all).map(([name, { from, system, parameters = {} }]) => ({
    name,
    from,
    ...(system === undefined ? {} : { system }),
    ...presetParameters(parameters),
  }))

const { hang_timeout: _, prepare_timeout: __, ...perModel } = engineOptions
const { spec, chat_template } = modelOptions
const keep_alive = option(keepAlive(), '5m').describe('How long it stays in memory.')

/** The settings that one of several models may have, by name. */
export const settingsOfModel: ReadonlyMap<string, PlacedOption> = new Map(
  placeOptions({ spec, chat_template, keep_alive, ...perModel }).map((one) => [one.path, one]),
)
