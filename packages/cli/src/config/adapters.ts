import path from 'node:path'
import type { AdapterSource } from '@cllm/core'
import { format, splitAtCommas, type ValueFormat } from './options/value-format.js'

/** Of `NAME=PATH[:SCALE]`. */
const pattern = /^([\w.-]{1,64})=(.+?)(?::([+-]?(?:\d+\.?\d*|\.\d+)))?$/

/** An adapter as the configuration has it; undefined for another text. */
function readAdapter(text: string): Omit<AdapterSource, 'id'> | undefined {
  const [, name, file, scale] = pattern.exec(text.trim()) ?? []
  if (name === undefined || file === undefined) return undefined
  return { name, path: file, ...(scale !== undefined && { scale: Number(scale) }) }
}

const isList = (value: unknown): boolean => {
  if (!Array.isArray(value)) return false
  const names = value.map((one) => (typeof one === 'string' ? readAdapter(one)?.name : undefined))
  return names.every((name) => name !== undefined) && new Set(names).size === names.length
}

/** Adapters, each `NAME=PATH` or `NAME=PATH:SCALE`, with different names. */
export const adapters = (): ValueFormat<readonly string[]> =>
  format('a list of NAME=PATH[:SCALE], each name once', isList, {
    parse: splitAtCommas,
    placeholder: 'NAME=PATH[:SCALE]',
  })

/** Makes the paths absolute. */
export const resolveAdapters = (texts: readonly string[], folder: string): readonly string[] =>
  texts.map((text) => {
    const { name, path: file, scale } = readAdapter(text) ?? {}
    if (name === undefined || file === undefined) return text
    return `${name}=${path.resolve(folder, file)}${scale === undefined ? '' : `:${scale}`}`
  })

/** The adapters of a setting that was checked. */
export const adaptersOf = (texts: readonly string[]): AdapterSource[] =>
  texts.flatMap((text) => readAdapter(text) ?? [])
