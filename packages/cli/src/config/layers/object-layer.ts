import { suggestion } from '../messages.js'
import { options } from '../options/schema.js'
import { isRecord } from '../options/value-format.js'
import type { Layer, Setting } from './setting.js'

const paths: ReadonlySet<string> = new Set(options.map(({ path }) => path))
const isSection = (path: string): boolean => options.some((one) => one.path.startsWith(`${path}.`))

/**
 * Reads the settings in an object of the YAML file's shape; what is undefined counts as not set.
 *
 * @param label - what messages call it
 */
export function readObjectLayer(tree: object, label: string): Layer {
  const settings: Setting[] = []
  const problems: string[] = []
  const read = (given: object, prefix: string): void => {
    for (const [name, value] of Object.entries(given) as [string, unknown][]) {
      const path = `${prefix}${name}`
      const own = `${label}: ${path}`
      if (value === undefined) continue
      if (paths.has(path)) settings.push({ path, value, source: label, label: own })
      else if (!isSection(path))
        problems.push(`${own}: there is no such setting${suggestion(path, paths)}`)
      else if (isRecord(value)) read(value, `${path}.`)
      else problems.push(`${own}: expected an object with settings`)
    }
  }
  read(tree, '')
  return { settings, problems, warnings: [] }
}
