import { describeValue, suggestion } from '../messages.js'
import { schema } from '../options/schema.js'
import { type ServedModel, keepAlive } from '../served-models.js'
import type { Setting } from '../layers/setting.js'
import { accepts, type ValueFormat } from '../options/value-format.js'
import { checkPresets, type PresetSettings } from '../presets.js'
import { isPlainTemplate } from '../chat-templates.js'

const { hang_timeout: _, prepare_timeout: __, ...perModel } = schema.engine
const formats: Readonly<Record<string, ValueFormat<unknown>>> = {
  spec: schema.model.spec.format,
  chat_template: schema.model.chat_template.format,
  keep_alive: keepAlive(),
  ...Object.fromEntries(Object.entries(perModel).map(([name, { format }]) => [name, format])),
}

const known = Object.keys(formats)

const checkOne = (label: string, model: ServedModel): readonly string[] =>
  Object.entries(model).flatMap(([key, value]) => {
    const format = formats[key]
    if (format === undefined) {
      return [`${label}: unknown setting ${key} of a model${suggestion(key, known)}`]
    }
    if (accepts(format, value)) return []
    return [`${label}: ${key}: expected ${format.expected}, got ${describeValue(value)}`]
  })

/** Problems with the models that are served by name, and with the settings that refer to them. */
export const checkModels = (settings: ReadonlyMap<string, Setting>): readonly string[] => {
  const served = settings.get('models.served')!
  const models = served.value as Readonly<Record<string, ServedModel>>
  const names = Object.keys(models)
  const problems: string[] = Object.entries(models).flatMap(([name, model]) =>
    checkOne(`${served.label}: ${name}`, model),
  )
  const presets = settings.get('models.presets')!
  const byName = presets.value as Readonly<Record<string, PresetSettings>>
  problems.push(...checkPresets(presets.label, byName))
  if (names.length === 0) return problems
  for (const path of ['model.id', 'model.chat_template']) {
    const { value, label } = settings.get(path)!
    if (value !== null) problems.push(`${label}: has no effect together with ${served.label}`)
  }
  const aliases = settings.get('models.aliases')!
  for (const name of Object.values(aliases.value as Readonly<Record<string, string | null>>)) {
    if (name === null || names.includes(name)) continue
    problems.push(unknownModel(aliases, name, names))
  }
  const nameable = [...names, ...Object.keys(aliases.value as object)]
  for (const { from } of Object.values(byName)) {
    if (typeof from === 'string' && !nameable.includes(from))
      problems.push(unknownModel(presets, from, nameable))
  }
  const preload = settings.get('models.preload')!
  for (const name of preload.value as readonly string[]) {
    if (name !== '*' && !names.includes(name)) problems.push(unknownModel(preload, name, names))
  }
  return problems
}

/** Warnings about the models. */
export const warnOfModels = (settings: ReadonlyMap<string, Setting>): readonly string[] => {
  const { label, value } = settings.get('model.chat_template')!
  if (typeof value !== 'string' || !isPlainTemplate(value)) return []
  return [`${label}: a template without {{ … }}: every prompt is ${JSON.stringify(value)}`]
}

const unknownModel = ({ label }: Setting, name: string, names: readonly string[]): string =>
  `${label}: expected one of ${names.join(', ')}, got ${name}${suggestion(name, names)}`
