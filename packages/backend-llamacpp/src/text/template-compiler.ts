import type { Logger } from '@cllm/core'
import { openLlama } from '../native/open-llama.js'
import type { JinjaTemplate } from '../native/native.js'
import { compileTemplate } from './compile-template.js'

/**
 * Compiles chat templates as a backend does, without a model.
 *
 * @throws CllmError as {@link createLlamaCppBackend} does where llama.cpp has no binary
 */
export async function createTemplateCompiler(
  logger: Logger,
): Promise<(source: string) => JinjaTemplate> {
  const llama = await openLlama('off', logger)
  return (source) => compileTemplate(source, (text) => llama.compileJinja(text))
}
