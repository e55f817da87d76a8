import type { SamplingParams } from '@cllm/core'
import { catalog } from './catalog.js'
import { findEntry } from './find-entry.js'

/** The sampling that the catalog has for a model, for what requests leave out; empty: none. */
export function catalogSampling(spec: string): Partial<SamplingParams> {
  return findEntry(catalog, spec)?.sampling ?? {}
}
