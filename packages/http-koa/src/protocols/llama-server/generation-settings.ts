import { defaultSampling, type EngineInfo, type GenerateRequest } from '@cllm/core'
import { largest } from '../../fields/fields.js'

/** llama-server's order, in its names. */
const samplers = [
  'penalties',
  'dry',
  'top_n_sigma',
  'top_k',
  'typ_p',
  'top_p',
  'min_p',
  'xtc',
  'temperature',
]

/** What a request is generated with, in llama-server's names; what this server has not is off. */
export function generationSettings(
  request: Pick<
    GenerateRequest,
    | 'maxTokens'
    | 'sampling'
    | 'fallbackSampling'
    | 'stop'
    | 'logprobs'
    | 'drawLogprobs'
    | 'adapters'
    | 'contextShift'
  >,
  info?: EngineInfo,
) {
  const recommended = info?.model.sampling
  const { contextShift, fallbackSampling } = request
  const given = { ...fallbackSampling, ...recommended, ...request.sampling }
  const sampling = { ...defaultSampling, ...given }
  const { maxTokens = largest } = request
  const most = maxTokens === largest ? -1 : maxTokens
  const ends = sampling.ignoreEos ? endTokens(info) : []
  const { constraint } = sampling
  return {
    n_predict: most,
    max_tokens: most,
    seed: sampling.seed ?? 4_294_967_295,
    temperature: sampling.temperature,
    dynatemp_range: sampling.dynamicTemperatureRange,
    dynatemp_exponent: sampling.dynamicTemperatureExponent,
    top_k: sampling.topK,
    top_p: sampling.topP,
    min_p: sampling.minP,
    top_n_sigma: sampling.topNSigma === 0 ? -1 : sampling.topNSigma,
    xtc_probability: sampling.xtcProbability,
    xtc_threshold: sampling.xtcThreshold,
    typical_p: sampling.typicalP,
    repeat_last_n: sampling.penaltyLastN === largest ? -1 : sampling.penaltyLastN,
    repeat_penalty: sampling.repetitionPenalty,
    presence_penalty: sampling.presencePenalty,
    frequency_penalty: sampling.frequencyPenalty,
    dry_multiplier: sampling.dryMultiplier,
    dry_base: sampling.dryBase,
    dry_allowed_length: sampling.dryAllowedLength,
    dry_penalty_last_n: sampling.dryPenaltyLastN,
    dry_sequence_breakers: sampling.drySequenceBreakers,
    mirostat: sampling.mirostat,
    mirostat_tau: sampling.mirostatTau,
    mirostat_eta: sampling.mirostatEta,
    adaptive_target: -1,
    adaptive_decay: 0,
    stop: request.stop ?? [],
    n_keep: (contextShift || {}).keep ?? 0,
    n_discard: 0,
    ignore_eos: sampling.ignoreEos,
    stream: true,
    // of end tokens, null is minus infinity
    logit_bias: [
      ...ends.map((token) => ({ token, bias: null })),
      ...sampling.logitBias.map(([token, bias]) => ({ token, bias })),
    ],
    n_probs: request.logprobs ?? request.drawLogprobs ?? 0,
    min_keep: sampling.minKeep,
    grammar: constraint?.type === 'gbnf' ? constraint.grammar : '',
    grammar_lazy: constraint?.type === 'triggered-json',
    grammar_triggers: [],
    preserved_tokens: [],
    chat_format: 'Content-only',
    reasoning_format: 'deepseek',
    reasoning_in_content: false,
    generation_prompt: '',
    samplers,
    'speculative.types': 'none',
    'speculative.n_max': 0,
    'speculative.n_min': 0,
    'speculative.p_min': 0,
    timings_per_token: false,
    post_sampling_probs: request.drawLogprobs !== undefined,
    backend_sampling: false,
    lora: (request.adapters ?? []).map(({ adapter, scale = null }) => ({
      [typeof adapter === 'number' ? 'id' : 'name']: adapter,
      scale,
    })),
  }
}

/** The token that ends a text; there may be more of them. */
function endTokens(info: EngineInfo | undefined): readonly number[] {
  const token = info?.model.details?.['eosTokenId']
  return typeof token === 'number' ? [token] : []
}
