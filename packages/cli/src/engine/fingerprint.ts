import { createHash } from 'node:crypto'
import { open } from 'node:fs/promises'
import { currentVersions } from '@cllm/backend-llamacpp/native-build'
import type { EngineInfo } from '@cllm/core'
import { thisMachine } from './native-library.js'

/** The file is read in this many places, a piece of this size at each. */
const places = 64
const piece = 256 * 1024

/**
 * A hash of a model's file: its size, its beginning (where a GGUF file has its metadata), and pieces
 * evenly spread over the rest, which tell different weights apart without reading all of them.
 */
async function hashModelFile(path: string): Promise<string> {
  const file = await open(path)
  try {
    const { size } = await file.stat()
    const hash = createHash('sha256').update(String(size))
    const buffer = Buffer.alloc(piece)
    for (let place = 0; place < places; place++) {
      const at = Math.floor((Math.max(0, size - piece) * place) / (places - 1))
      const { bytesRead } = await file.read(buffer, 0, piece, at)
      hash.update(buffer.subarray(0, bytesRead))
    }
    return hash.digest('hex')
  } finally {
    await file.close()
  }
}

/** What an engine's numbers depend on that its information does not say. */
export interface FingerprintParts {
  readonly kvCacheType?: unknown
  readonly flashAttention?: unknown
  /** The library of `cllm native build`, where it is used. */
  readonly library: string | undefined
}

/**
 * A short name of all that decides an engine's numbers: engines with equal ones compute the same. It is the
 * `system_fingerprint` of OpenAI's answers, and what requests of a cluster move by.
 */
export async function fingerprintOf(
  { model, capabilities }: EngineInfo,
  { library, kvCacheType = null, flashAttention = null }: FingerprintParts,
): Promise<string> {
  const { path, details = {}, quantization, parameters } = model
  const { native = null, gpuLayers = null, chatTemplate = null } = details
  const parts = {
    quantization,
    parameters,
    native,
    gpuLayers,
    chatTemplate,
    file: path === undefined ? null : await hashOrNone(path),
    gpu: capabilities.gpu,
    kvCacheType,
    flashAttention,
    library: library === undefined ? null : await hashOrNone(library),
    machine: thisMachine(),
    versions: currentVersions,
  }
  const text = JSON.stringify(Object.entries(parts).toSorted(([a], [b]) => (a < b ? -1 : 1)))
  return `fp_${createHash('sha256').update(text).digest('hex').slice(0, 16)}`
}

/** A plug-in's model may be no file. */
async function hashOrNone(path: string): Promise<string | null> {
  return await hashModelFile(path).catch(() => null)
}
