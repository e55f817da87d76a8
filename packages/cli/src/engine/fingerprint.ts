import { createHash } from 'node:crypto'
import { currentVersions } from '@cllm/backend-llamacpp/native-build'
import { sampleFile } from '@cllm/backend-llamacpp/sample-file'
import type { Backend } from '@cllm/core'
import { thisMachine } from './native-library.js'

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
  { model, capabilities }: Pick<Backend, 'model' | 'capabilities'>,
  { library, kvCacheType = null, flashAttention = null }: FingerprintParts,
): Promise<string> {
  const { path, details = {}, quantization, parameters } = model
  const { native = null, gpuLayers = null, kvUnified = null, chatTemplate = null } = details
  const parts = {
    quantization,
    parameters,
    native,
    gpuLayers,
    kvUnified,
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
  // begins as llama-server's do, whose clients look at the b
  return `b0-${createHash('sha256').update(text).digest('hex').slice(0, 16)}`
}

/** A plug-in's model may be no file. */
async function hashOrNone(path: string): Promise<string | null> {
  const hash = createHash('sha256')
  return await sampleFile(path, hash).then(
    () => hash.digest('hex'),
    () => null,
  )
}
