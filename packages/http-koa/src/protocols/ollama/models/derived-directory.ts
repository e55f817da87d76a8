import { type EngineClient, type EngineDirectory, type Logger, overriding } from '@cllm/core'
import type { z } from 'zod'
import { preambleDetail } from '../../../chat/preamble.js'
import { UnknownFields } from '../../../fields/unknown-fields.js'
import { buildRequest } from '../../../request/build-request.js'
import { havingDefaults } from '../../../request/model-defaults.js'
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
  const find = (id: string | undefined) =>
    id === undefined ? undefined : derived.find(id, directory)
  const baseOf = (id: string | undefined) => find(id)?.from ?? id
  return overriding<EngineDirectory>(directory, {
    adapted: () => [
      ...(directory.adapted?.() ?? []),
      ...derived
        .list(directory)
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
  const described = overriding(client, {
    async info() {
      const info = await client.info()
      const details = { ...info.model.details, ...preambleDetail(model) }
      return { ...info, model: { ...info.model, details } }
    },
  })
  const { maxTokens } = settings
  return havingDefaults(described, { maxTokens, sampling: own.sampling ?? {}, stop: own.stop })
}
