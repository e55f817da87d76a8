import { CllmError, type SamplingParams } from '@cllm/core'
import { z } from 'zod'
import type { RequestSettings } from '../request/build-request.js'
import { integer, largest, number, text } from './fields.js'
import { list } from './list.js'
import { expectedField } from '../request/expected-field.js'

const fewBreakers = 'an array of up to 32 strings of 1 to 40 characters'
const breaker = text.min(1, fewBreakers).max(40, fewBreakers)

/** Some clients send the list as JSON in a text. */
function fromJson(value: unknown): unknown {
  try {
    return typeof value === 'string' ? JSON.parse(value) : value
  } catch {
    return value
  }
}

/** The samplers that need the logits, and the window of penalties, in llama-server's names. */
export const samplerFields = {
  typical_p: number(0, 1).optional(),
  top_n_sigma: number(-1, 1000).optional(),
  dynatemp_range: number(0, 100).optional(),
  dynatemp_exponent: number(0, 100).optional(),
  xtc_probability: number(0, 1).optional(),
  xtc_threshold: number(0, 1).optional(),
  dry_multiplier: number(0, 100).optional(),
  dry_base: number(0, 100).optional(),
  dry_allowed_length: integer(0, largest).optional(),
  dry_penalty_last_n: integer(-1, largest).optional(),
  dry_sequence_breakers: z
    .preprocess(
      fromJson,
      list(breaker, fewBreakers, { least: [1, fewBreakers], most: [32, fewBreakers] }),
    )
    .optional(),
  mirostat: integer(0, 2).optional(),
  mirostat_tau: number(0, 100).optional(),
  mirostat_eta: number(0, 100).optional(),
  min_keep: integer(0, largest).optional(),
  repeat_last_n: integer(-1, largest).optional(),
}

/** These fields of a body. */
export type SamplerFields = {
  readonly [Name in keyof typeof samplerFields]?: z.output<(typeof samplerFields)[Name]>
}

/** cLLM's name of each. */
const names: Readonly<Record<keyof typeof samplerFields, keyof SamplingParams>> = {
  typical_p: 'typicalP',
  top_n_sigma: 'topNSigma',
  dynatemp_range: 'dynamicTemperatureRange',
  dynatemp_exponent: 'dynamicTemperatureExponent',
  xtc_probability: 'xtcProbability',
  xtc_threshold: 'xtcThreshold',
  dry_multiplier: 'dryMultiplier',
  dry_base: 'dryBase',
  dry_allowed_length: 'dryAllowedLength',
  dry_penalty_last_n: 'dryPenaltyLastN',
  dry_sequence_breakers: 'drySequenceBreakers',
  mirostat: 'mirostat',
  mirostat_tau: 'mirostatTau',
  mirostat_eta: 'mirostatEta',
  min_keep: 'minKeep',
  repeat_last_n: 'penaltyLastN',
}

/** The settings from these fields, with the values that llama-server and its older versions take. */
export function samplerSettings(fields: SamplerFields): RequestSettings {
  const { top_n_sigma: sigma, dry_base: base, dry_penalty_last_n: lastN, mirostat } = fields
  if (mirostat === 1) {
    throw expectedField('mirostat', '0 or 2, instead got 1')
  }
  return {
    typicalP: fields.typical_p,
    topNSigma: sigma === undefined ? undefined : Math.max(0, sigma), // −1 is off
    dynamicTemperatureRange: fields.dynatemp_range,
    dynamicTemperatureExponent: fields.dynatemp_exponent,
    xtcProbability: fields.xtc_probability,
    xtcThreshold: fields.xtc_threshold,
    dryMultiplier: fields.dry_multiplier,
    dryBase: base === undefined || base < 1 ? undefined : base, // the default
    dryAllowedLength: fields.dry_allowed_length,
    dryPenaltyLastN: lastN === -1 ? largest : lastN, // the whole context
    drySequenceBreakers: fields.dry_sequence_breakers,
    mirostat: mirostat as 0 | 2 | undefined,
    mirostatTau: fields.mirostat_tau,
    mirostatEta: fields.mirostat_eta,
    minKeep: fields.min_keep,
    penaltyLastN: fields.repeat_last_n === -1 ? largest : fields.repeat_last_n, // the whole context
  }
}

/** The engine's refusal of one of these fields, with the field's name in place of cLLM's. */
export function inFieldNames(error: unknown): unknown {
  if (!CllmError.isInstance(error) || error.code !== 'unsupported') return error
  const { details } = error
  if (details['capability'] !== 'samplers') return error
  const own = Object.entries(names).find(([, name]) => name === details['field'])
  if (own === undefined) return error
  const [field, name] = own
  const message = error.message.replace(`${name}:`, `${field}:`)
  return new CllmError('unsupported', message, { details: { ...details, field }, cause: error })
}
