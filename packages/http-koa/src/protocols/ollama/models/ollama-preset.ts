import {
  defined,
  type Logger,
  type ModelPreset,
  type SamplingField,
  samplingFields,
} from '@cllm/core'
import type { z } from 'zod'
import { UnknownFields, type JsonObject } from '../../../fields/fields.js'
import { buildRequest } from '../../../request/build-request.js'
import { unsupported } from '../../../request/refusals.js'
import { type optionsSchema, toSettings } from '../ollama-fields.js'

/** A preset that an Ollama client made, with the parameters in the client's words. */
export interface OllamaPreset extends ModelPreset {
  readonly parameters: JsonObject
}

/** A preset whose parameters, which `parseFields` has checked, count in every protocol. */
export function withParameters(
  preset: ModelPreset,
  parameters: z.output<typeof optionsSchema>,
  logger: Logger,
): OllamaPreset {
  const settings = toSettings({ options: parameters }, new UnknownFields(), logger)
  const nothing = { maxTokens: Infinity, sampling: {} }
  const { sampling, stop } = buildRequest({ text: '' }, settings, nothing)
  return { ...preset, maxTokens: settings.maxTokens, sampling, stop, parameters }
}

/** The parameters of a preset in Ollama's words. */
export function parametersOf(preset: ModelPreset | undefined): OllamaPreset['parameters'] {
  if (preset === undefined) return {}
  if ('parameters' in preset) return (preset as OllamaPreset).parameters
  const { maxTokens, stop, sampling = {} } = preset
  const names = Object.keys(samplingFields) as (keyof typeof samplingFields)[]
  return defined({
    num_predict: maxTokens,
    stop,
    ...Object.fromEntries(names.map((name) => [wireNameOf(name), sampling[name]])),
  })
}

function wireNameOf(name: keyof typeof samplingFields): string {
  const { llama, wire }: SamplingField = samplingFields[name]
  return llama ?? wire
}

/** Refuses a template of Ollama's: an empty one is none. */
export function refuseTemplate(template: string | undefined): void {
  if ((template ?? '') === '') return
  const how =
    'conversations are written by the chat template of the GGUF file, or of --chat-template'
  throw unsupported('template', `Ollama's Go templates are not read: ${how}`)
}
