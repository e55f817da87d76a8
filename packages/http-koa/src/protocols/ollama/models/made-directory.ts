import { type EngineDirectory, type Logger, overriding } from '@cllm/core'
import type { z } from 'zod'
import { UnknownFields } from '../../../fields/unknown-fields.js'
import { buildRequest } from '../../../request/build-request.js'
import { havingDefaults, type ModelDefaults } from '../../../request/model-defaults.js'
import { type optionsSchema, toSettings } from '../ollama-fields.js'
import type { MadeModel, MadeModels } from './made-models.js'
import { VisibleModels } from './visible-models.js'

/**
 * The same engines, whose models can also be named as clients have copied and made them, in every
 * protocol: what such a model has of its own counts where a request leaves it out.
 */
export function withMadeModels(
  directory: EngineDirectory,
  made: MadeModels,
  logger: Logger,
): EngineDirectory {
  const visible = new VisibleModels(made, directory)
  const find = (id: string | undefined) => (id === undefined ? undefined : visible.find(id))
  const baseOf = (id: string | undefined) => find(id)?.from ?? id
  const known = new WeakMap<MadeModel, ModelDefaults>()
  const ownOf = (model: MadeModel): ModelDefaults => {
    const own = known.get(model) ?? defaultsOf(model, logger)
    known.set(model, own)
    return own
  }
  return overriding<EngineDirectory>(directory, {
    adapted: () => [
      ...(directory.adapted?.() ?? []),
      ...visible
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
      return model === undefined ? client : havingDefaults(client, ownOf(model))
    },
    unload: async (id) => await directory.unload(baseOf(id) ?? id),
    defaultAdapters: (id) => directory.defaultAdapters?.(baseOf(id)) ?? [],
  })
}

function defaultsOf(model: MadeModel, logger: Logger): ModelDefaults {
  // `create` has checked them
  const options = model.parameters as z.output<typeof optionsSchema>
  const settings = toSettings({ options }, Infinity, new UnknownFields(), logger)
  const own = buildRequest({ text: '' }, settings, { maxTokens: Infinity, sampling: {} })
  const { maxTokens } = settings
  return { maxTokens, sampling: own.sampling ?? {}, stop: own.stop, preamble: model }
}
