import { defaultSampling } from '@cllm/core'
import { option } from './option.js'
import { decimal, integer } from './value-format.js'

/** The options for what a request does not say: the branch `api.defaults` of the schema. */
export const requestDefaults = {
  max_tokens: option({
    doc: 'Most tokens of an answer, where the request does not say.',
    default: 100,
    format: integer({ minimum: 1 }),
    arg: 'default-max-tokens',
    placeholder: 'TOKENS',
  }),
  temperature: option({
    doc: 'How random; 0 always takes the likeliest token.',
    default: defaultSampling.temperature,
    format: decimal({ minimum: 0, maximum: 2 }),
    arg: 'default-temperature',
    placeholder: 'NUMBER',
  }),
  top_k: option({
    doc: 'Only the k likeliest tokens; 0 is off.',
    default: defaultSampling.topK,
    format: integer({ minimum: 0 }),
    arg: 'default-top-k',
    placeholder: 'COUNT',
  }),
  top_p: option({
    doc: 'Only the likeliest tokens up to this probability in all; 1 is off.',
    default: 0.9,
    format: decimal({ minimum: 0, maximum: 1 }),
    arg: 'default-top-p',
    placeholder: 'NUMBER',
  }),
  min_p: option({
    doc: "Only tokens with at least this share of the likeliest one's probability; 0 is off.",
    default: defaultSampling.minP,
    format: decimal({ minimum: 0, maximum: 1 }),
    arg: 'default-min-p',
    placeholder: 'NUMBER',
  }),
  repetition_penalty: option({
    doc: 'Divides the logits of recent tokens; 1 is off.',
    default: defaultSampling.repetitionPenalty,
    format: decimal({ minimum: 0.01, maximum: 10 }),
    arg: 'default-repetition-penalty',
    placeholder: 'NUMBER',
  }),
  presence_penalty: option({
    doc: "OpenAI's presence penalty; 0 is off.",
    default: defaultSampling.presencePenalty,
    format: decimal({ minimum: -2, maximum: 2 }),
    arg: 'default-presence-penalty',
    placeholder: 'NUMBER',
  }),
  frequency_penalty: option({
    doc: "OpenAI's frequency penalty; 0 is off.",
    default: defaultSampling.frequencyPenalty,
    format: decimal({ minimum: -2, maximum: 2 }),
    arg: 'default-frequency-penalty',
    placeholder: 'NUMBER',
  }),
}
