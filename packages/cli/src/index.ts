export type {
  CacheSettings,
  EngineSettings,
  llamaCpp,
  LogLevelMessage,
  StartMessage,
} from './engine/process-channel.js'
export * from './api/create-server.js'
export { type EngineProcess, spawnEngine, type SpawnOptions } from './engine/spawn-engine.js'
export * from './models/resolve-model.js'
export * from './api/serve.js'
