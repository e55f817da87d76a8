export * from './bus/cluster-bus.js'
export type { RedisBusOptions } from './bus/connections.js'
export * from './bus/redis-bus.js'
export * from './front/cluster-channel.js'
export * from './front/cluster-directory.js'
export * from './front/cluster-front.js'
export type { IncompatibleWorker, Member } from './front/members.js'
export { readRecord, whyIncompatible } from './front/members.js'
export type { PlacingCounts, PlacingOptions } from './front/placing/placing.js'
export { defaultPlacingOptions } from './front/placing/placing.js'
export type { Sleep } from './front/sleep-watch.js'
export * from './link/envelope.js'
export * from './link/link.js'
export type { LocalWorker, LocalWorkers, LocalWorkersOptions } from './local/local-workers.js'
export { joinLocalWorkers } from './local/local-workers.js'
export type {
  WorkerState,
  WorkerRecord,
  ToWorker,
  FromWorker,
  WorkerNews,
  WorkerOrder,
  StepEvents,
} from './messages.js'
export * from './shared/job-queue.js'
export * from './shared/shared-encodings.js'
export * from './shared/shared-records.js'
export * from './shared/shared-states.js'
export * from './shared/shared-text.js'
export * from './shared/shared-limits.js'
export * from './worker/worker-host.js'
