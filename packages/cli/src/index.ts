export type * from './engine/engine-settings.js'
export * from './create-server.js'
export * from './engine/spawn-engine.js'
export * from './models/resolve-model.js'
