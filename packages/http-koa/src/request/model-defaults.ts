import type { EngineClient, ModelPreset } from '@cllm/core'
import { z } from 'zod'
import { stop } from '../fields/fields.js'
import { parseFields } from '../fields/parse-fields.js'
import { defaultsOptions, overridesFrom, type ProtocolDefaults } from './protocol-defaults.js'

/** A route's defaults, with those of the client's preset in place of them: also of those that an operator has set. */
export function withModelDefaults(
  { preset }: EngineClient,
  defaults: ProtocolDefaults,
): ProtocolDefaults {
  if (preset === undefined) return defaults
  return {
    ...defaults,
    maxTokens: preset.maxTokens ?? defaults.maxTokens,
    set: { ...defaults.set, ...preset.sampling },
    stop: preset.stop,
  }
}

const parametersSchema = z.object({ ...defaultsOptions.shape, stop: stop.optional() })

/**
 * The parameters of a preset in the names of `api.defaults`, and `stop`; unknown names are passed over.
 *
 * @throws `invalid_request` for the first wrong one
 */
export function presetParameters(
  parameters: Readonly<Record<string, unknown>>,
): Pick<ModelPreset, 'maxTokens' | 'sampling' | 'stop'> {
  const { stop, ...given } = parseFields(parametersSchema, parameters)
  return { ...overridesFrom(given, {}), ...(stop && { stop: [stop].flat() }) }
}

/** The names of {@link presetParameters}. */
export const presetParameterNames: readonly string[] = Object.keys(parametersSchema.shape)
