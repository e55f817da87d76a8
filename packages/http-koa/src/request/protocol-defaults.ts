import { defaultSampling, type SamplingParams } from '@cllm/core'

/** What a request gets that does not say. */
export interface ProtocolDefaults {
  /** Most tokens of an answer; `Infinity`: as many as fit the slot. */
  readonly maxTokens: number
  /** What differs from the engine's own table. */
  readonly sampling: Partial<SamplingParams>
}

/** What an operator has set for every protocol. */
export type DefaultOverrides = Partial<ProtocolDefaults>

/** The native API's documented defaults; the rest is the engine's. */
export const nativeDefaults: ProtocolDefaults = Object.freeze({
  maxTokens: 100,
  sampling: Object.freeze({ temperature: 0.7, topP: 0.9 }),
})

const openAi = Object.freeze({ temperature: 1 })
const ollama = Object.freeze({ temperature: 0.8, topK: 40, topP: 0.9 })
const llamaServer = Object.freeze({ temperature: 0.8, topK: 40, topP: 0.95, minP: 0.05 })

/**
 * The defaults of every route that generates: each protocol's own documented ones, but that penalties
 * are off everywhere. `docs/defaults.md` is made from this table.
 */
export const protocolDefaults = Object.freeze({
  '/generate': nativeDefaults,
  '/v1/chat/completions': { maxTokens: Infinity, sampling: openAi },
  '/v1/responses': { maxTokens: Infinity, sampling: openAi },
  '/v1/completions': { maxTokens: 16, sampling: openAi },
  '/api/generate': { maxTokens: Infinity, sampling: ollama },
  '/api/chat': { maxTokens: Infinity, sampling: ollama },
  '/completion': { maxTokens: Infinity, sampling: llamaServer },
}) satisfies Readonly<Record<string, ProtocolDefaults>>

/** A protocol's defaults with what an operator has set. */
export function withOverrides(
  defaults: ProtocolDefaults,
  overrides: DefaultOverrides = {},
): ProtocolDefaults {
  return {
    maxTokens: overrides.maxTokens ?? defaults.maxTokens,
    sampling: { ...defaults.sampling, ...overrides.sampling },
  }
}

/** The sampling that a route ends up with, for documentation. */
export const effectiveSampling = (defaults: ProtocolDefaults): Omit<SamplingParams, 'seed'> => ({
  ...defaultSampling,
  ...defaults.sampling,
})
