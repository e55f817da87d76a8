import type { SamplingParams } from '@cllm/core'
import { catalog } from './catalog.js'

/** The sampling that the catalog has for a model, for what requests leave out; empty: none. */
export function catalogSampling(spec: string): Partial<SamplingParams> {
  return catalog.find(({ name }) => name === spec)?.sampling ?? {}
}
