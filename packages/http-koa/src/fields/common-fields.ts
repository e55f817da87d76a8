import type { z } from 'zod'
import type { RequestSettings } from '../request/build-request.js'
import { adaptersField } from './adapters-field.js'
import { boolean, integer, largest, milliseconds, name } from './fields.js'

/** cLLM's own fields, which every protocol but Ollama's takes. */
export const commonFields = {
  ignore_eos: boolean.optional(),
  priority: integer(-(2 ** 31), largest).optional(),
  deadline_ms: milliseconds.optional(),
  timeout_ms: milliseconds.optional(),
  tenant: name.optional(),
  session: name.optional(),
  speculative: boolean.optional(),
  lora: adaptersField.optional(),
  context_shift: boolean.optional(),
  n_keep: integer(-1, largest).optional(),
}

/** Fields that several protocols share. */
export type CommonFields = {
  readonly [Name in keyof typeof commonFields]?: z.output<(typeof commonFields)[Name]>
}

/** Fields with the same name in these protocols; their ranges differ. */
export interface SamplingFields {
  readonly temperature?: number | undefined
  readonly top_k?: number | undefined
  readonly top_p?: number | undefined
  readonly min_p?: number | undefined
  readonly seed?: number | undefined
  readonly presence_penalty?: number | undefined
  readonly frequency_penalty?: number | undefined
}

/** The settings from the fields with the same names. */
export const commonSettings = (fields: CommonFields & SamplingFields): RequestSettings => ({
  temperature: fields.temperature,
  topK: fields.top_k,
  topP: fields.top_p,
  minP: fields.min_p,
  seed: fields.seed,
  presencePenalty: fields.presence_penalty,
  frequencyPenalty: fields.frequency_penalty,
  ignoreEos: fields.ignore_eos,
  priority: fields.priority,
  deadlineMs: fields.deadline_ms,
  timeoutMs: fields.timeout_ms,
  tenant: fields.tenant,
  session: fields.session,
  speculative: fields.speculative,
  adapters: fields.lora,
  contextShift: shiftOf(fields),
})

/** What is to be done when the slot is full; undefined: as the server is set. */
function shiftOf({
  context_shift: shifts,
  n_keep: keep,
}: CommonFields): RequestSettings['contextShift'] {
  if (shifts !== true) return shifts
  return keep === undefined ? {} : { keep }
}
