import { CllmError, type ModelSource } from '@cllm/core'
import { suggestion } from '../../config/messages.js'
import type { FetchOptions } from './fetch-progress.js'

type Sources = ReadonlyMap<string, ModelSource>

/** @throws `model_unavailable` with the known schemes */
export function sourceOf(spec: string, scheme: string, sources: Sources): ModelSource {
  const source = sources.get(scheme)
  if (source !== undefined) return source
  const schemes = ['hf', ...sources.keys()]
  const message = `${spec}: no plug-in provides the model source "${scheme}"; expected one of ${schemes.join(', ')}${suggestion(scheme, schemes)}`
  throw new CllmError('model_unavailable', message, { details: { spec, valid: schemes } })
}

/**
 * Fetches a model from a plug-in's source.
 *
 * @returns the absolute path of its file
 * @throws `model_unavailable`, or the source's error
 */
export async function fetchFromSource(
  spec: string,
  scheme: string,
  {
    sources,
    signal,
    onProgress,
  }: Pick<FetchOptions, 'signal' | 'onProgress'> & { readonly sources: Sources },
): Promise<string> {
  const source = sourceOf(spec, scheme, sources)
  onProgress({ kind: 'start', model: spec, source: scheme })
  const { path } = await source.fetch(spec.slice(scheme.length + 1), {
    signal,
    onProgress: (receivedBytes, totalBytes = 0) =>
      onProgress({ kind: 'bytes', receivedBytes, totalBytes }),
  })
  onProgress({ kind: 'done', model: spec, path })
  return path
}
