import type { EngineDirectory, EngineInfo } from '@cllm/core'
import { z } from 'zod'
import type { KoaContext } from '../koa-context.js'
import { parseFields } from '../parse-fields.js'

/** The names of the models that are in memory. */
export const loadedModels = (directory: EngineDirectory): string[] =>
  directory.list().filter((name) => directory.status(name).state === 'loaded')

/** What a model is, where that is known without loading it. */
export async function knownInfo(
  directory: EngineDirectory,
  model?: string,
): Promise<EngineInfo | undefined> {
  const { info, state } = directory.status(model)
  if (info !== undefined || state !== 'loaded') return info
  return await directory.open(model, { peek: true }).info()
}

/** What a model is; one that was never in memory is loaded. */
export const infoOf = async (directory: EngineDirectory, model?: string): Promise<EngineInfo> =>
  (await knownInfo(directory, model)) ?? (await directory.open(model).info())

/** The query of routes that look at one model; by default the default one. */
export const modelQuery = z.object({ model: z.string('the name of one model').optional() })

/** The model that the query names. */
export const modelOf = ({ query }: KoaContext): string | undefined =>
  parseFields(modelQuery, query).model
