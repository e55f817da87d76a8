import type { LlamaCppOptions } from '@cllm/backend-llamacpp'
import type { LoadedConfig } from '../config/load-config.js'
import type { CllmConfig } from '../config/schema.js'
import { readChatTemplate } from '../config/read-chat-template.js'
import type { OwnSettings } from '../config/served-models.js'
import type { EngineSettings } from './engine-settings.js'

/** A model to serve: its file, and the settings that hold for it alone. */
export interface ModelToServe {
  /** What clients call it. */
  readonly name: string
  /** Its GGUF. */
  readonly path: string
  readonly settings: OwnSettings
}

/** What the configuration means for the engine of a model. */
export function toEngineSettings(loaded: LoadedConfig, model: ModelToServe): EngineSettings {
  const { config } = loaded
  const { scheduler } = config
  const timeout = scheduler.request_timeout
  const tokens = scheduler.max_queued_tokens
  const wait = scheduler.max_queue_wait
  return {
    backend: toBackendOptions(config, model),
    policy: scheduler.policy,
    policyOptions: scheduler.policy_options,
    options: {
      maxQueuedRequests: scheduler.max_queued_requests,
      isolateTenants: isolatesTenants(config),
      ...(tokens === 0 ? {} : { maxQueuedTokens: tokens }),
      ...(wait === 0 ? {} : { maxQueueWaitMs: wait * 1000 }),
      ...(timeout === 0 ? {} : { requestTimeoutMs: timeout * 1000 }),
    },
    plugins: config.plugins,
    pluginsFolder: loaded.pluginsFolder,
    log: { level: config.logging.level, file: config.logging.file },
  }
}

/** With keys there are others to keep things from. */
function isolatesTenants({ security }: CllmConfig): boolean {
  return security.isolate_tenants || security.api_key !== null || security.api_keys !== null
}

function toBackendOptions({ engine: common }: CllmConfig, { name, path, settings }: ModelToServe) {
  const { chat_template: template, keep_alive: _, ...own } = settings
  const engine = { ...common, ...own }
  return {
    modelPath: path,
    modelId: name,
    slots: engine.slots,
    batchSize: engine.batch_size,
    gpu: engine.gpu,
    kvCacheType: engine.kv_cache_type,
    flashAttention: engine.flash_attention,
    mmap: engine.mmap,
    mlock: engine.mlock,
    ignoreMemoryCheck: engine.ignore_memory_check,
    ...(engine.ctx_size === 'auto' ? {} : { contextSize: engine.ctx_size }),
    ...(engine.threads === 'auto' ? {} : { threads: engine.threads }),
    ...(engine.gpu_layers === 'auto' ? {} : { gpuLayers: engine.gpu_layers }),
    ...(template === undefined ? {} : { chatTemplate: readChatTemplate(template) }),
  } as LlamaCppOptions
}
