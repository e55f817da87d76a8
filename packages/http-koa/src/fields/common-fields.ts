import type { z } from 'zod'
import type { RequestSettings } from '../request/build-request.js'
import { adaptersField } from './adapters-field.js'
import { boolean, integer, largest, milliseconds, name } from './fields.js'
import { samplingSettings } from './sampling-fields.js'

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

/** These fields of a body. */
export type CommonFields = {
  readonly [Name in keyof typeof commonFields]?: z.output<(typeof commonFields)[Name]>
}

/** The settings from these fields and the sampling parameters beside them. */
export function commonSettings(fields: CommonFields): RequestSettings {
  const { context_shift: shifts, n_keep: keep } = fields
  return {
    ...samplingSettings(fields),
    ignoreEos: fields.ignore_eos,
    priority: fields.priority,
    deadlineMs: fields.deadline_ms,
    timeoutMs: fields.timeout_ms,
    tenant: fields.tenant,
    session: fields.session,
    speculative: fields.speculative,
    adapters: fields.lora,
    // what is to be done when the slot is full; undefined: as the server is set
    contextShift: shifts === true ? (keep === undefined ? {} : { keep }) : shifts,
  }
}

/** The slot that llama-server's `id_slot` names; −1 and none leave it to the engine. */
export const slotField = integer(-1, largest)
  .transform((id) => (id < 0 ? undefined : id))
  .optional()
