import { defaultSampling, type GenerateRequest, penaltyWindow } from '@cllm/core'
import { largest } from '../fields/fields.js'

/** What a request is generated with, in llama-server's names. */
export function generationSettings(
  request: Pick<GenerateRequest, 'maxTokens' | 'sampling' | 'stop'>,
) {
  const sampling = { ...defaultSampling, ...request.sampling }
  const { maxTokens = largest } = request
  return {
    n_predict: maxTokens === largest ? -1 : maxTokens,
    seed: sampling.seed ?? 4_294_967_295,
    temperature: sampling.temperature,
    top_k: sampling.topK,
    top_p: sampling.topP,
    min_p: sampling.minP,
    repeat_last_n: penaltyWindow,
    repeat_penalty: sampling.repetitionPenalty,
    presence_penalty: sampling.presencePenalty,
    frequency_penalty: sampling.frequencyPenalty,
    ignore_eos: sampling.ignoreEos,
    stop: request.stop ?? [],
  }
}
