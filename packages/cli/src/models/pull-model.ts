import type { Output } from '../commands/command-io.js'
import { progressDisplay } from './progress-bar.js'
import { resolveModel, type ResolvedModel, type ResolveModelOptions } from './resolve-model.js'

/**
 * {@link resolveModel} with its progress shown on `output`.
 *
 * @throws what `resolveModel` throws
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
