import type { Output } from '../commands/command-io.js'
import { progressDisplay } from './fetch/progress-bar.js'
import { resolveModel, type ResolvedModel, type ResolveModelOptions } from './resolve-model.js'

/**
 * Calls {@link resolveModel} and shows its progress on `output`.
 *
 * @throws the errors of `resolveModel`
 */
export async function pullModel(
  spec: string,
  output: Output,
  options: Omit<ResolveModelOptions, 'onProgress'> = {},
): Promise<ResolvedModel> {
  const { show, close } = progressDisplay(output)
  try {
    return await resolveModel(spec, { ...options, onProgress: show })
  } finally {
    close()
  }
}
