import { open } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'
import type { GgufFileType } from 'node-llama-cpp'
import { type GgufHead, HeadGoesOn, parseGgufHead } from './gguf-head.js'

export type { GgufHead }

/** Bytes that are read first; a vocabulary of 150,000 tokens has some millions. */
const firstBytes = 2 ** 20
/** More than any vocabulary needs: a damaged length would have the whole file read into memory. */
const mostBytes = 2 ** 27

/**
 * Reads the head of a GGUF file; of one that is split over several files, the tensors of all.
 * node-llama-cpp's reader makes a value of each token, which takes a second for some vocabularies.
 *
 * @throws Error with a `code` when it cannot be read, without one when it is no GGUF file
 */
export async function readGgufFile(path: string): Promise<GgufHead> {
  const head = await readHead(path)
  const others = partsOf(path).filter((part) => part !== path)
  if (others.length === 0) return head
  const parts = await Promise.all(others.map(readHead))
  return { ...head, tensors: [head, ...parts].flatMap(({ tensors }) => tensors) }
}

/** The files of a model: one, or as many as the name of its first says. */
export function partsOf(path: string): string[] {
  const [, stem, count] = /^(.*)-\d{5}-of-(\d{5})\.gguf$/.exec(path) ?? []
  if (stem === undefined) return [path]
  const number = (index: number): string => String(index + 1).padStart(5, '0')
  return Array.from(
    { length: Number(count) },
    (_, index) => `${stem}-${number(index)}-of-${count}.gguf`,
  )
}

async function readHead(path: string): Promise<GgufHead> {
  const file = await open(path)
  try {
    const stats = await file.stat()
    if (stats.isDirectory()) {
      throw Object.assign(new Error('expected a GGUF file, found a folder'), { code: 'EISDIR' })
    }
    const { size } = stats
    let bytes = Buffer.alloc(0)
    for (let wanted = firstBytes; ; wanted *= 2) {
      const more = Buffer.allocUnsafe(Math.min(wanted, size) - bytes.length)
      const { bytesRead } = await file.read(more, 0, more.length, bytes.length)
      bytes = Buffer.concat([bytes, more.subarray(0, bytesRead)])
      try {
        return parseGgufHead(bytes)
      } catch (error) {
        if (!(error instanceof HeadGoesOn) || bytesRead < more.length || wanted >= size) throw error
        if (wanted >= mostBytes) {
          const message = `expected a head of at most ${mostBytes} bytes, found a longer one`
          throw new Error(message, { cause: error })
        }
      }
    }
  } finally {
    await file.close()
  }
}

let fileTypes: Promise<typeof GgufFileType> | undefined

/** The name of a `general.file_type`, such as `MOSTLY_Q4_K_M`; undefined: none is known. */
export async function fileTypeName(type: number): Promise<string | undefined> {
  fileTypes ??= readFileTypes()
  return (await fileTypes)[type]
}

/** Without the rest of node-llama-cpp, which takes half a second of CPU time. */
async function readFileTypes(): Promise<typeof GgufFileType> {
  const main = pathToFileURL(createRequire(import.meta.url).resolve('node-llama-cpp'))
  const types = (await import(new URL('gguf/types/GgufMetadataTypes.js', main).href)) as {
    readonly GgufFileType: typeof GgufFileType
  }
  return types.GgufFileType
}
