export type {
  CacheSettings,
  EngineSettings,
  llamaCpp,
  LogLevelMessage,
  StartMessage,
} from './engine/process-channel.js'
export { createServer } from '@cllm/host'
export { type EngineProcess, spawnEngine, type SpawnOptions } from './engine/spawn-engine.js'
export * from './models/resolve-model.js'
export * from './api/serve.js'
