import { defaultSampling, type GenerateRequest, penaltyWindow } from '@cllm/core'
import { largest } from '../fields/fields.js'

/** What a request is generated with, in llama-server's names. */
export function generationSettings(
  request: Pick<GenerateRequest, 'maxTokens' | 'sampling' | 'fallbackSampling' | 'stop'>,
) {
  const sampling = { ...defaultSampling, ...request.fallbackSampling, ...request.sampling }
  const { maxTokens = largest } = request
  return {
    n_predict: maxTokens === largest ? -1 : maxTokens,
    seed: sampling.seed ?? 4_294_967_295,
    temperature: sampling.temperature,
    top_k: sampling.topK,
    top_p: sampling.topP,
    min_p: sampling.minP,
    typical_p: sampling.typicalP,
    top_n_sigma: sampling.topNSigma === 0 ? -1 : sampling.topNSigma,
    dynatemp_range: sampling.dynamicTemperatureRange,
    dynatemp_exponent: sampling.dynamicTemperatureExponent,
    xtc_probability: sampling.xtcProbability,
    xtc_threshold: sampling.xtcThreshold,
    dry_multiplier: sampling.dryMultiplier,
    dry_base: sampling.dryBase,
    dry_allowed_length: sampling.dryAllowedLength,
    dry_penalty_last_n: sampling.dryPenaltyLastN,
    dry_sequence_breakers: sampling.drySequenceBreakers,
    mirostat: sampling.mirostat,
    mirostat_tau: sampling.mirostatTau,
    mirostat_eta: sampling.mirostatEta,
    repeat_last_n: penaltyWindow,
    repeat_penalty: sampling.repetitionPenalty,
    presence_penalty: sampling.presencePenalty,
    frequency_penalty: sampling.frequencyPenalty,
    ignore_eos: sampling.ignoreEos,
    stop: request.stop ?? [],
  }
}
