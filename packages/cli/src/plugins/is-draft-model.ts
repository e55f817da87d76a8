import { CllmError, type PluginRegistry } from '@cllm/core'
import { modelName, type ResolveModelOptions } from '../models/resolve-model.js'

/**
 * Whether `scheduler.speculative` names a model and no proposer.
 *
 * @param find - how models are found
 * @throws `invalid_configuration` with the names of the proposers when it is neither
 */
export function isDraftModel(
  speculative: string,
  { proposers }: PluginRegistry,
  find: Pick<ResolveModelOptions, 'sources' | 'mustBeGguf'> = {},
): boolean {
  if (proposers.names.includes(speculative)) return false
  try {
    modelName(speculative, find)
    return true
  } catch (error) {
    if (!CllmError.isInstance(error)) throw error
    proposers.check(speculative)
    throw error
  }
}
