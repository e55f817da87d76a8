import { CllmError, type ModelPreset } from '@cllm/core'
import { presetParameterNames, presetParameters } from '@cllm/http-koa'
import { describeValue, suggestion } from './messages.js'
import { format, isRecord, parseJson, type ValueFormat } from './options/value-format.js'

/** A preset as the configuration has it. */
export interface PresetSettings {
  readonly from: string
  readonly system?: string
  readonly parameters?: Readonly<Record<string, unknown>>
}

const settings = ['from', 'system', 'parameters']

/** Presets by name. {@link checkPresets} checks the settings of each. */
export const presets = (): ValueFormat<Readonly<Record<string, PresetSettings>>> =>
  format(
    'names with `{ from, system, parameters }`',
    (value) => isRecord(value) && Object.values(value).every(isRecord),
    { parse: parseJson, placeholder: 'JSON' },
  )

/** Problems with presets, each with its place. */
export function checkPresets(
  label: string,
  all: Readonly<Record<string, PresetSettings>>,
): readonly string[] {
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

/** The presets for the server. */
export const toPresets = (all: Readonly<Record<string, PresetSettings>>): readonly ModelPreset[] =>
  Object.entries(all).map(([name, { from, system, parameters = {} }]) => ({
    name,
    from,
    ...(system === undefined ? {} : { system }),
    ...presetParameters(parameters),
  }))
