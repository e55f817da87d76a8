import { defined, type ModelPreset } from '@cllm/core'
import { z } from 'zod'
import { integer, largest, stop, parseFields, type JsonObject } from '../fields/fields.js'
import type { DefaultOverrides, ProtocolDefaults } from './build-request.js'
import { API_DEFAULTS, Services } from '../routes/define-protocol.js'
import { defaultsFields, samplingSettings } from '../fields/generation-fields.js'

/** A protocol's defaults, overridden by the operator's values. */
export function withOverrides(
  defaults: ProtocolDefaults,
  overrides: DefaultOverrides = {},
): ProtocolDefaults {
  return {
    maxTokens: overrides.maxTokens ?? defaults.maxTokens,
    sampling: { ...defaults.sampling, ...overrides.sampling },
    set: { ...defaults.set, ...overrides.sampling },
  }
}

/** As {@link withOverrides}, for each route of a protocol. */
export const eachWithOverrides = <Path extends string>(
  defaults: Readonly<Record<Path, ProtocolDefaults>>,
  overrides?: DefaultOverrides,
): Readonly<Record<Path, ProtocolDefaults>> => {
  const all = Object.entries<ProtocolDefaults>(defaults)
  const own = all.map(([path, one]) => [path, withOverrides(one, overrides)])
  return Object.fromEntries(own) as Record<Path, ProtocolDefaults>
}

/** Options of a protocol that set its defaults, in the names of `api.defaults`. */
export const defaultsOptions = z.object({
  max_tokens: integer(1, largest).optional(),
  ...defaultsFields,
  seed: integer(0, 2 ** 32 - 1).optional(),
})

/** The operator's values for every protocol, overridden by the options of one protocol. */
export function overridesFrom(
  options: z.output<typeof defaultsOptions>,
  services = new Services(),
): DefaultOverrides {
  const every = services.get(API_DEFAULTS) ?? {}
  const { max_tokens: maxTokens = every.maxTokens } = options
  const sampling = { ...every.sampling, ...defined(samplingSettings(options)) }
  return { ...(maxTokens === undefined ? {} : { maxTokens }), sampling }
}

const parametersSchema = z.object({ ...defaultsOptions.shape, stop: stop.optional() })

/**
 * The parameters of a preset, named as in `api.defaults`, and `stop`; unknown names are ignored.
 *
 * @throws `invalid_request` for the first wrong one
 */
export function presetParameters(
  parameters: JsonObject,
): Pick<ModelPreset, 'maxTokens' | 'sampling' | 'stop'> {
  const { stop, ...given } = parseFields(parametersSchema, parameters)
  return { ...overridesFrom(given), ...(stop && { stop: [stop].flat() }) }
}

/** The names of {@link presetParameters}. */
export const presetParameterNames: readonly string[] = Object.keys(parametersSchema.shape)
