// A server, or an engine alone.
export * from './server/create-server.js'
export * from './server/static-directory.js'
export { LocalEngineClient } from './client/engine-control.js'

// Several models.
export * from './models/model-pool.js'
export * from './models/named-models.js'
export {
  defaultModelPoolOptions,
  type LoadContext,
  type LoadableModel,
  type LoadedModel,
  type ModelPoolOptions,
} from './models/pooled-model.js'

// Engines in other processes.
export * from './remote/channel.js'
export * from './remote/engine-host.js'
export * from './remote/remote-engine-client.js'
export { pastOf, sumStatistics } from './statistics/sum-statistics.js'
export { defaultRecorderOptions, type RecorderOptions } from './recorder/flight-recorder.js'
export * from './recorder/write-recording.js'
export * from './fleet/in-flight-request.js'
export * from './fleet/waiting.js'
export { secretOf, SlotFolder, stateBytes, stateIn, stateName } from './state-files/state-file.js'
export type { ReadHead } from './state-files/thread/state-format.js'
export * from './state-files/state-folder.js'
export { TouchedMemory } from './state-files/thread/state-thread.js'
export type { SupervisorState } from './supervisor/engine-supervisor.js'
export * from './supervisor/supervised-engine-client.js'
export * from './supervisor/supervisor-options.js'

// Plug-ins and policies.
export * from './plugin/load-plugin.js'

// For authors of backends, protocols and policies.
export * from './client/wrapping.js'
export { CallServer, type CallAnswer, type CallForwarder } from './remote/engine-calls.js'
export { requestId } from './remote/event-streams.js'
