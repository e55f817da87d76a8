import {
  type EngineClient,
  type EngineDirectory,
  type GenerateRequest,
  type Logger,
  overriding,
} from '@cllm/core'
import type { z } from 'zod'
import { preambleDetail } from '../../../chat/preamble.js'
import { largest } from '../../../fields/fields.js'
import { UnknownFields } from '../../../fields/unknown-fields.js'
import { buildRequest } from '../../../request/build-request.js'
import { type optionsSchema, toSettings } from '../ollama-fields.js'
import type { DerivedModel, DerivedModels } from './derived-models.js'

/**
 * The same engines, whose models can also be named as clients have copied and made them, in every
 * protocol: what such a model has of its own counts where a request leaves it out.
 */
export function withDerived(
  directory: EngineDirectory,
  derived: DerivedModels,
  logger: Logger,
): EngineDirectory {
  const find = (id: string | undefined) => (id === undefined ? undefined : derived.find(id))
  const baseOf = (id: string | undefined) => find(id)?.from ?? id
  return overriding<EngineDirectory>(directory, {
    adapted: () => [
      ...(directory.adapted?.() ?? []),
      ...derived
        .list()
        .filter(({ name, from }) => name !== from)
        .map(({ name, from }) => ({ name, model: from })),
    ],
    nameOf: (id) => directory.nameOf(baseOf(id)),
    status(id) {
      const name = find(id)?.name
      const status = directory.status(baseOf(id))
      return name === undefined ? status : { ...status, name }
    },
    open(id, options) {
      const model = find(id)
      const client = directory.open(baseOf(id), options)
      return model === undefined ? client : derivedClient(client, model, logger)
    },
    unload: async (id) => await directory.unload(baseOf(id) ?? id),
    defaultAdapters: (id) => directory.defaultAdapters?.(baseOf(id)) ?? [],
  })
}

function derivedClient(client: EngineClient, model: DerivedModel, logger: Logger): EngineClient {
  // `create` has checked them
  const options = model.parameters as z.output<typeof optionsSchema>
  const settings = toSettings({ options }, Infinity, new UnknownFields(), logger)
  const own = buildRequest({ text: '' }, settings, { maxTokens: Infinity, sampling: {} })
  return overriding(client, {
    async info() {
      const info = await client.info()
      const details = { ...info.model.details, ...preambleDetail(model) }
      return { ...info, model: { ...info.model, details } }
    },
    submit: (request, options) => client.submit(withParameters(request, own), options),
  })
}

/** The request with the model's parameters where it has none itself. */
function withParameters(request: GenerateRequest, own: GenerateRequest): GenerateRequest {
  const { stop = [], maxTokens = largest } = request
  return {
    ...request,
    sampling: { ...own.sampling, ...request.sampling },
    stop: stop.length === 0 ? (own.stop ?? []) : stop,
    maxTokens: Math.min(maxTokens, own.maxTokens ?? largest),
  }
}
