import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'
import type { GgufFileInfo, GgufFileType, readGgufFileInfo } from 'node-llama-cpp'

export type { GgufFileInfo }

/** The two of node-llama-cpp's modules that read GGUF files. */
interface GgufReader {
  readonly readGgufFileInfo: typeof readGgufFileInfo
  readonly GgufFileType: typeof GgufFileType
}

let loading: Promise<GgufReader> | undefined

/** Loads them without the rest of node-llama-cpp, which takes half a second of CPU time. */
async function ggufReader(): Promise<GgufReader> {
  const main = pathToFileURL(createRequire(import.meta.url).resolve('node-llama-cpp'))
  const part = async (path: string): Promise<object> =>
    (await import(new URL(path, main).href)) as object
  loading ??= Promise.all([
    part('gguf/readGgufFileInfo.js'),
    part('gguf/types/GgufMetadataTypes.js'),
  ]).then(([reader, types]) => ({ ...reader, ...types }) as GgufReader)
  return await loading
}

/**
 * Reads the head of a GGUF file.
 * @param ignoreKeys - of metadata that is not kept
 * @throws Error with a `code` when it cannot be read, without one when it is no GGUF file
 */
export async function readGgufFile(
  path: string,
  ignoreKeys: readonly string[],
): Promise<GgufFileInfo> {
  const reader = await ggufReader()
  const options = { sourceType: 'filesystem', logWarnings: false } as const
  return await reader.readGgufFileInfo(path, { ...options, ignoreKeys: [...ignoreKeys] })
}

/** The name of a `general.file_type`, such as `MOSTLY_Q4_K_M`; undefined: none is known. */
export async function fileTypeName(type: number): Promise<string | undefined> {
  const reader = await ggufReader()
  return reader.GgufFileType[type]
}
