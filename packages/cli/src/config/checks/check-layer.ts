import { describeValue } from '../messages.js'
import { options, type PlacedOption } from '../options/option-list.js'
import type { Layer, Setting } from '../layers/setting.js'
import { accepts } from '../options/value-format.js'

const byPath: ReadonlyMap<string, PlacedOption> = new Map(
  options.map((option) => [option.path, option]),
)

/**
 * Checks the values of a layer and makes its relative paths absolute. Every invalid setting becomes
 * a problem.
 */
export const checkLayer = (layer: Layer, folder: string): Layer => {
  const settings: Setting[] = []
  const problems = [...layer.problems]
  for (const setting of layer.settings) {
    const { format, isSecret, normalize, resolve } = byPath.get(setting.path)!
    const value = normalize(setting.value)
    if (accepts(format, value)) {
      settings.push({ ...setting, value: resolve(value, folder) })
    } else {
      const got = isSecret ? '' : `, got ${describeValue(setting.value)}`
      problems.push(`${setting.label}: expected ${format.expected}${got}`)
    }
  }
  return { ...layer, settings, problems }
}
