import { readdirSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { attempt } from '@cllm/core'

/** The name of a projector that is fetched with a model's file. */
export const projectorName = (model: string): string => `mmproj-${basename(model)}`

/** Whether a file is a projector, by its name. */
export const isProjector = (file: string): boolean => /mmproj/i.test(basename(file))

/**
 * The projector in the folder of a model's file: the one of its name, whatever the quantizations, or the only one beside
 * the only model. Undefined: there is none, or it is not clear which.
 */
export function projectorBeside(model: string): string | undefined {
  const read = () => readdirSync(dirname(model)).filter((file) => /\.gguf$/i.test(file))
  const files = attempt(read, [])
  const projectors = files.filter(isProjector)
  const models = new Set(files.filter((file) => !isProjector(file)).map(stemOf))
  const [only, ...others] = projectors
  const isClear = models.size === 1 && others.length === 0
  const found =
    projectors.find((file) => file === projectorName(model)) ??
    projectors.find((file) => stemOf(file) === stemOf(basename(model))) ??
    (isClear ? only : undefined)
  return found === undefined || isProjector(model) ? undefined : join(dirname(model), found)
}

/** `SmolVLM2-2.2B-Instruct` of its files, in small letters: without quantization, `mmproj` and parts. */
const stemOf = (file: string): string =>
  file
    .replace(/(-\d{5}-of-\d{5})?\.gguf$/i, '')
    .toLowerCase()
    .split(/[-.]/)
    .filter((word) => !/^(mmproj|i?q\d\w*|b?f16|f32|mxfp4|ud)$/.test(word))
    .join('-')
