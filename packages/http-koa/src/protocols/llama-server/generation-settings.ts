import { defaultSampling, type EngineInfo, type GenerateRequest } from '@cllm/core'
import { largest } from '../../fields/fields.js'
import { samplerSteps, samplingEcho } from '../../fields/generation-fields.js'

/** What a request is generated with, in llama-server's names; what this server has not is off. */
export function generationSettings(request: Partial<GenerateRequest>, info?: EngineInfo) {
  const recommended = info?.model.sampling
  const { contextShift, fallbackSampling } = request
  const given = { ...fallbackSampling, ...recommended, ...request.sampling }
  const sampling = { ...defaultSampling, ...given }
  const { maxTokens = largest } = request
  const most = maxTokens === largest ? -1 : maxTokens
  // there may be more of them
  const eos = info?.model.details?.eosTokenId
  const ends = sampling.ignoreEos && eos !== undefined ? [eos] : []
  const { constraint } = sampling
  const { mirostat, mirostat_tau, mirostat_eta, min_keep, ...numbers } = samplingEcho(sampling)
  return {
    n_predict: most,
    max_tokens: most,
    seed: sampling.seed ?? 4_294_967_295,
    ...numbers,
    dry_sequence_breakers: sampling.drySequenceBreakers,
    mirostat,
    mirostat_tau,
    mirostat_eta,
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
    min_keep,
    grammar: constraint?.type === 'gbnf' ? constraint.grammar : '',
    grammar_lazy: constraint?.type === 'triggered-json',
    grammar_triggers: [],
    preserved_tokens: [],
    chat_format: 'Content-only',
    reasoning_format: 'deepseek',
    reasoning_in_content: false,
    generation_prompt: '',
    samplers: samplerSteps,
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
