import { open } from 'node:fs/promises'
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

/** What `general.file_type` means, by its number. */
const fileTypes =
  'F32 F16 Q4_0 Q4_1 Q4_1_SOME_F16 Q4_2 Q4_3 Q8_0 Q5_0 Q5_1 Q2_K Q3_K_S Q3_K_M Q3_K_L Q4_K_S Q4_K_M Q5_K_S Q5_K_M ' +
  'Q6_K IQ2_XXS IQ2_XS Q2_K_S IQ3_XS IQ3_XXS IQ1_S IQ4_NL IQ3_S IQ3_M IQ2_S IQ2_M IQ4_XS IQ1_M BF16 Q4_0_4_4 ' +
  'Q4_0_4_8 Q4_0_8_8 TQ1_0 TQ2_0 MXFP4_MOE NVFP4 Q1_0 Q2_0'

/** How a model's weights are quantized, such as `Q4_K_M`, by its `general.file_type`. */
export function quantizationOf(fileType: unknown): string {
  return fileTypes.split(' ')[Number(fileType)] ?? 'unknown'
}
