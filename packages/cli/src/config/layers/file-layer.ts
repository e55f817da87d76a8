import { describeValue } from '../messages.js'
import { ignoredKeys, isAlreadySo, mappedKeys } from './original-layout.js'
import { readYaml, type YamlEntry } from './read-yaml.js'
import type { Layer, Setting } from './setting.js'
import { accepts } from '../options/value-format.js'

/** Precedence of the keys for one option: its own key first, then in the order of `mappedKeys`. */
const ranks = new Map([...mappedKeys.keys()].map((key, index) => [key, index + 1]))
const rank = ({ key }: YamlEntry) => ranks.get(key) ?? 0

const ignoredWarning = (entries: readonly YamlEntry[], file: string): string[] => {
  const names = entries
    .filter(({ key, value }) => ignoredKeys.has(key) && !isAlreadySo(key, value))
    .map(({ key }) => key)
  if (names.length === 0) return []
  return [`${file}: settings of the original server that have no effect: ${names.join(', ')}`]
}

/** Reads the settings in a YAML file, which may mix this project's keys and the original's. */
export const readFileLayer = (text: string, file: string): Layer => {
  const { entries, problems: syntax } = readYaml(text, file)
  const problems = [...syntax]
  const warnings = ignoredWarning(entries, file)
  const settings = new Map<string, Setting & YamlEntry>()

  for (const entry of [...entries].sort((a, b) => rank(a) - rank(b))) {
    const { key, line } = entry
    if (ignoredKeys.has(key)) continue
    const mapped = mappedKeys.get(key)
    const label = `${file}:${line}: ${key}`
    if (mapped?.format !== undefined && !accepts(mapped.format, entry.value)) {
      problems.push(
        `${label}: expected ${mapped.format.expected}, got ${describeValue(entry.value)}`,
      )
      continue
    }
    const path = mapped?.path ?? key
    const value = mapped?.convert?.(entry.value as never) ?? entry.value
    const first = settings.get(path)
    if (first === undefined) {
      const source = mapped === undefined ? `${file}:${line}` : `${file}:${line} (${key})`
      settings.set(path, { ...entry, path, value, source, label })
    } else if (first.value !== value) {
      warnings.push(`${label}: overridden by ${first.key}, which has another value`)
    }
  }
  const isOriginal = entries.some(({ key }) => mappedKeys.has(key) || ignoredKeys.has(key))
  return { settings: [...settings.values()], problems, warnings, isOriginal }
}
