import { defaultSampling } from '@cllm/core'
import { option } from './option.js'
import { decimal, integer, orNone } from './value-format.js'

/** Defaults for fields that a request leaves out: the branch `api.defaults` of the schema. */
export const requestDefaults = {
  max_tokens: option({
    doc: 'Most tokens to generate, if the request sets no limit.',
    default: 100,
    format: integer({ minimum: 1 }),
    arg: 'default-max-tokens',
    placeholder: 'TOKENS',
  }),
  temperature: option({
    doc: 'Randomness of sampling; 0 always takes the likeliest token.',
    default: defaultSampling.temperature,
    format: decimal({ minimum: 0, maximum: 2 }),
    arg: 'default-temperature',
    placeholder: 'NUMBER',
  }),
  seed: option<number | null>({
    doc: 'Seed of what is drawn, so that equal requests have equal answers; by default random.',
    default: null,
    format: orNone(integer({ minimum: 0, maximum: 2 ** 32 - 1 })),
    arg: 'default-seed',
    placeholder: 'NUMBER',
  }),
  top_k: option({
    doc: 'Samples from the k likeliest tokens only; 0 is off.',
    default: defaultSampling.topK,
    format: integer({ minimum: 0 }),
    arg: 'default-top-k',
    placeholder: 'COUNT',
  }),
  top_p: option({
    doc: 'Samples from the likeliest tokens only, up to this total probability; 1 is off.',
    default: 0.9,
    format: decimal({ minimum: 0, maximum: 1 }),
    arg: 'default-top-p',
    placeholder: 'NUMBER',
  }),
  min_p: option({
    doc: "Drops tokens below this share of the likeliest token's probability; 0 is off.",
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
