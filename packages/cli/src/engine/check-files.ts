import { accessSync, constants, statSync } from 'node:fs'
import { CllmError } from '@cllm/core'
import { adaptersOf } from '../config/adapters.js'
import type { LoadedConfig } from '../config/load-config.js'
import { readChatTemplate } from '../config/read-chat-template.js'
import type { OwnSettings } from '../config/served-models.js'
import { llamaCpp } from './engine-settings.js'
import { backendNameOf } from './to-engine-settings.js'

/**
 * Checks, before models are fetched, that the files which their engines read besides them are there: chat templates
 * and adapters.
 *
 * @throws `invalid_configuration`
 */
export function checkFiles({ config }: LoadedConfig): void {
  const { model, models, engine } = config
  const single: OwnSettings =
    model.chat_template === null ? {} : { chat_template: model.chat_template }
  const served: readonly OwnSettings[] = Object.values(models.served)
  for (const settings of served.length > 0 ? served : [single]) {
    readChatTemplate(settings.chat_template ?? null)
    if (backendNameOf(config, settings) !== llamaCpp) continue
    const { lora = engine.lora } = settings
    for (const { name, path } of adaptersOf(lora as readonly string[])) checkAdapter(name, path)
  }
}

function checkAdapter(name: string, path: string): void {
  try {
    accessSync(path, constants.R_OK)
    if (statSync(path).isDirectory()) throw new Error(`expected a GGUF file, ${path} is a folder`)
  } catch (cause) {
    const message = `engine.lora: the adapter ${name} cannot be read: ${(cause as Error).message}`
    throw new CllmError('invalid_configuration', message, { cause })
  }
}
