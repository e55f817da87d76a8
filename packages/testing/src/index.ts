export * from './policy/first-come-first-served.js'
export {
  type ConformanceEngine,
  conformanceContext,
  createConformanceEngine,
  hostConformanceEngine,
} from './engine-client/conformance-engine.js'
export * from './fakes/fake-backend.js'
export type { FakeAdapter, FakeAdapters } from './fakes/fake-adapters.js'
export type { FakeImages } from './fakes/fake-images.js'
export type { FakeBackendOptions, FakeOperation, FakeScript, FakeStep } from './fakes/fake-calls.js'
export { scriptAnswers } from './fakes/fake-model.js'
export { fakeSpecialTokens, FakeTokenizer, fakeTokenIds } from './fakes/fake-tokenizer.js'
export * from './time/simulated-time.js'
export * from './backend/test-backend.js'
export * from './test-context.js'
export * from './policy/test-halves.js'
export * from './engine-client/test-engine-client.js'
export * from './engine-client/test-engine-directory.js'
export * from './policy/test-policy.js'
export * from './proposer/test-proposer.js'
export * from './protocol/test-protocol.js'
export * from './model-scheduler/test-model-scheduler.js'
export * from './router/test-router.js'
export * from './sampler/test-sampler.js'
export {
  jsonChannel,
  type ProtocolClient,
  type ProtocolRequest,
  type ServedProtocol,
  type ServeProtocol,
} from './protocol/served-protocol.js'
