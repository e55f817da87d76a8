import 'reflect-metadata'

// Contracts: what an engine, a client, a backend, a policy and a transport are.
export * from './contracts/services.js'
export * from './contracts/plugin.js'
export type * from './contracts/transport.js'
export type * from './contracts/engine/engine-client.js'
export type * from './contracts/engine/engine-observer.js'
export type * from './contracts/engine/engine-statistics.js'
export type * from './contracts/engine/generate-events.js'
export * from './contracts/engine/generate-request.js'
export * from './contracts/engine/recording.js'
export type * from './contracts/engine/request-report.js'
export type * from './contracts/model/backend.js'
export type * from './contracts/model/drawing.js'
export * from './contracts/model/tokenizer.js'
export type * from './contracts/model/model-info.js'
export * from './contracts/model/sampling.js'
export type * from './contracts/model/states.js'
export type * from './contracts/scheduling/decisions.js'
export type * from './contracts/scheduling/scheduler-policy.js'
export * from './errors/cllm-error.js'
export * from './errors/error-table.js'

// A server, or an engine alone.
export { checkServerParts, createEngine, type EngineParts } from './server/create-engine.js'
export * from './engine/engine.js'
export * from './engine/engine-options.js'
export * from './clock.js'

// Plug-ins and policies.
export * from './policy/model-scheduling.js'
export * from './plugin/plugin-registry.js'
export { Catalog, madeAs, SamplerCatalog, SAMPLERS } from './plugin/definitions.js'
export { composePolicy, nextOf } from './policy/policy-catalog.js'
export * from './engine/speculation/choose-drafts.js'
export {
  DRAFT_BACKEND,
  type DraftBackend,
  ngramProposer,
  PROPOSERS,
  ProposerCatalog,
} from './engine/speculation/proposers.js'
export { checkTokens, requestFields } from './engine/input/check-request.js'

// Replaceable parts of an engine (experimental), and what their contracts refer to.
export * from './tokens.js'
export * from './engine/engine-parts.js'
export {
  ENGINE_COSTS,
  type EngineCosts,
  type PauseBudget,
  type StateCosts,
} from './engine/costs/engine-costs.js'
export { ADAPTERS, type AdapterTable } from './engine/features/adapters.js'
export { EMBEDDINGS } from './engine/features/embeddings.js'
export { SLOT_ACTIONS } from './engine/kv/states/slot-actions.js'
export { Pauses, Program } from './engine/programs/program.js'
export { PROGRAMS } from './engine/programs/programs.js'
export { ACTIVITY } from './engine/report/activity-watch.js'
export type { BetweenSteps, LoopWork } from './engine/loop/between-steps.js'
export { type BlockChain, blockSize } from './engine/kv/block-chain.js'
export {
  FALLBACK_POLICY,
  type FallbackPolicy,
  type PolicyInForce,
} from './engine/loop/policy-runner.js'
export type { StopMatch, StopMatcher } from './engine/requests/stop-matcher.js'
export type { Encoding, Sequence, SequenceRequest, ShiftPlan } from './engine/requests/sequence.js'
export type { SequenceDrafts } from './engine/speculation/sequence-drafts.js'
export { type PartChoice, replaceableParts } from './plugin/part-catalog.js'

// For authors of backends, protocols and policies.
export * from './byte-alphabet.js'
export * from './engine/costs/linear-fit.js'
export * from './engine/costs/pass-costs.js'
export { BaseCacheManager } from './engine/kv/base-cache-manager.js'
export * from './engine/kv/cell-pool.js'
export * from './hash.js'
export { type Defined, defined, entryOf, lowestWhere, ownEntry, setLatest } from './defined.js'

// What `@cllm/host` and `@cllm/testing` are made with.
export { checkMessageCount, longText, PartQueue } from './engine/input/resolve-prompt.js'
export {
  hasMedia,
  type MediaContext,
  type MixedPrompt,
  resolveMedia,
} from './engine/input/resolve-media.js'
export { soundLength } from './engine/input/sound-length.js'
export { InputContext } from './engine/input/resolve-request.js'
export * from './engine/input/volatile-lines.js'
export { Counters, endState, toRecordedStep } from './engine/report/counters.js'
export { checkPlan } from './engine/loop/check-plan.js'
export {
  askRouter,
  checkDefinition,
  checkHalf,
  parseKnown,
  optionProblems,
  checkMade,
  synchronous,
} from './plugin/checks.js'
