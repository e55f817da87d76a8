import type { BackendCapabilities } from '../../contracts/model/backend.js'
import { defaultSampling, type SamplingParams } from '../../contracts/model/sampling.js'
import { CllmError } from '../../errors/cllm-error.js'
import { type NumberRange, checkNumber, invalidField } from './check-fields.js'

const maximumSeed = 0xffff_ffff
const mostBreakers = 32
const longestBreaker = 40

/** What the numbers may be. */
const ranges: Readonly<Partial<Record<keyof SamplingParams, NumberRange>>> = {
  temperature: { min: 0, max: 100 },
  topK: { min: 0, integer: true },
  topP: { min: 0, max: 1 },
  minP: { min: 0, max: 1 },
  typicalP: { min: 0, max: 1 },
  topNSigma: { min: 0, max: 1000 },
  dynamicTemperatureRange: { min: 0, max: 100 },
  dynamicTemperatureExponent: { min: 0, max: 100 },
  xtcProbability: { min: 0, max: 1 },
  xtcThreshold: { min: 0, max: 1 },
  dryMultiplier: { min: 0, max: 100 },
  dryBase: { min: 1, max: 100 },
  dryAllowedLength: { min: 0, integer: true },
  dryPenaltyLastN: { min: 0, integer: true },
  mirostatTau: { min: 0, max: 100 },
  mirostatEta: { min: 0, max: 100 },
  seed: { min: 0, max: maximumSeed, integer: true },
  minKeep: { min: 0, integer: true },
  penaltyLastN: { min: 0, integer: true },
  repetitionPenalty: { min: 0.01, max: 100 },
  presencePenalty: { min: -100, max: 100 },
  frequencyPenalty: { min: -100, max: 100 },
}

/** These switch on what only a backend with the capability `samplers` does. */
const switches = [
  'typicalP',
  'topNSigma',
  'dynamicTemperatureRange',
  'xtcProbability',
  'dryMultiplier',
  'mirostat',
  'minKeep',
] as const

/**
 * Checks the numbers and texts of sampling parameters.
 *
 * @throws CllmError `invalid_request`, or `unsupported` for what the backend cannot do, naming the field
 */
export function checkSampling(
  sampling: SamplingParams,
  capabilities: Pick<BackendCapabilities, 'samplers'>,
): void {
  for (const [field, range] of Object.entries(ranges)) {
    checkNumber(field, sampling[field as keyof SamplingParams], range)
  }
  const { mirostat, drySequenceBreakers, ignoreEos, samplers = [] } = sampling
  if (mirostat !== 0 && mirostat !== 2) throw invalidField('mirostat', '0 or 2', mirostat)
  checkBreakers(drySequenceBreakers)
  if (typeof ignoreEos !== 'boolean') throw invalidField('ignoreEos', 'true or false', ignoreEos)
  if (capabilities.samplers === true) return
  const changed = switches.find((field) => sampling[field] !== defaultSampling[field])
  if (changed !== undefined) throw unsupported(changed)
  if (samplers.length > 0) throw unsupported('samplers')
}

function checkBreakers(breakers: readonly string[]): void {
  const isText = (text: unknown) =>
    typeof text === 'string' && text !== '' && text.length <= longestBreaker
  if (Array.isArray(breakers) && breakers.length <= mostBreakers && breakers.every(isText)) return
  const expected = `an array of up to ${mostBreakers} texts of 1 to ${longestBreaker} characters`
  throw invalidField('drySequenceBreakers', expected, breakers)
}

function unsupported(field: string): CllmError {
  const message = `${field}: this backend's samplers cannot do that`
  return new CllmError('unsupported', message, { details: { field, capability: 'samplers' } })
}
