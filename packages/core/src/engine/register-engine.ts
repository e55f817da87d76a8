import { type DependencyContainer, type InjectionToken, Lifecycle } from 'tsyringe'
import type { EngineObserver } from '../contracts/engine/engine-observer.js'
import { ADAPTERS, AdapterTable } from './features/adapters.js'
import { BetweenSteps, type LoopWork } from './loop/between-steps.js'
import { ENGINE_COSTS, EngineCosts } from './costs/engine-costs.js'
import { Learning } from './costs/learning.js'
import { FcfsWaitPredictor } from './costs/wait-predictor.js'
import { EMBEDDINGS, Embeddings } from './features/embeddings.js'
import { QueueLimits } from './input/admission.js'
import { InputProcessor } from './input/input-processor.js'
import { EncodeLane } from './input/encode-lane.js'
import { InputContext } from './input/resolve-request.js'
import { PartQueue } from './input/resolve-prompt.js'
import { InFlightPrefixSharing } from './kv/in-flight-prefix-sharing.js'
import { SlotCacheManager } from './kv/kv-cache-manager.js'
import { BlockPrefixIndex } from './kv/prefix-index.js'
import { SlotCompactor } from './kv/slot-compactor.js'
import { SLOT_ACTIONS, SlotActions } from './kv/states/slot-actions.js'
import { StateCache } from './kv/states/state-cache.js'
import { OutputProcessor } from './requests/output-processor.js'
import { PolicyRunner } from './loop/policy-runner.js'
import { ACTIVITY, ActivityWatch } from './report/activity-watch.js'
import { Counters } from './report/counters.js'
import { EngineObservers } from './report/engine-observers.js'
import { StepPlanner } from './loop/step-planner.js'
import { EngineReport, RequestTracker } from './report/engine-report.js'
import { Partings } from './programs/partings.js'
import { PROGRAMS, Programs } from './programs/programs.js'
import { RequestTable } from './requests/request-table.js'
import { RunningSet, WaitingQueue } from './requests/request-sets.js'
import { Speculator } from './speculation/speculator.js'
import { Engine } from './engine.js'
import * as parts from './engine-parts.js'
import * as tokens from '../tokens.js'

/** The parts that a plug-in can replace, by token. */
export const builtInParts = [
  [parts.PREFIX_INDEX, BlockPrefixIndex],
  [parts.KV_CACHE_MANAGER, SlotCacheManager],
  [parts.WAIT_PREDICTOR, FcfsWaitPredictor],
  [parts.ADMISSION, QueueLimits],
] as const

/** Parts with a token that cannot be replaced. */
const shared = [
  [ENGINE_COSTS, EngineCosts],
  [ACTIVITY, ActivityWatch],
  [ADAPTERS, AdapterTable],
  [EMBEDDINGS, Embeddings],
  [PROGRAMS, Programs],
  [SLOT_ACTIONS, SlotActions],
] as const

/** Parts without a token. */
const fixed = [
  BetweenSteps,
  Counters,
  EncodeLane,
  Engine,
  EngineObservers,
  EngineReport,
  InFlightPrefixSharing,
  InputContext,
  InputProcessor,
  Learning,
  OutputProcessor,
  Partings,
  PartQueue,
  PolicyRunner,
  RequestTable,
  RequestTracker,
  RunningSet,
  SlotCompactor,
  Speculator,
  StepPlanner,
  StateCache,
  WaitingQueue,
] as const

/** The observers of each engine. The order matters: the policy sees programs. Counters and plug-ins' observers follow. */
const observing: readonly InjectionToken<EngineObserver>[] = [
  Programs,
  Partings,
  PolicyRunner,
  RequestTracker,
  ENGINE_COSTS,
  parts.WAIT_PREDICTOR,
  parts.KV_CACHE_MANAGER,
  StepPlanner,
]

/** Parts with work between the steps; other features are added when they are first used. */
const working: readonly InjectionToken<LoopWork>[] = [parts.KV_CACHE_MANAGER, SlotCompactor]

/** Registers the classes of an engine, one instance of each; nothing is made yet. */
export function registerEngine(container: DependencyContainer): void {
  const once = { lifecycle: Lifecycle.ContainerScoped }
  for (const useClass of fixed) container.register<unknown>(useClass, { useClass }, once)
  for (const [token, useClass] of [...builtInParts, ...shared]) {
    container.register<unknown>(useClass, { useClass }, once)
    container.register<unknown>(token, { useToken: useClass })
  }
  const features: parts.Features = { get: (feature) => container.resolve(feature) }
  container.registerInstance(parts.FEATURES, features)
}

/**
 * Makes the engine from the registered parts, with its observers and the work between its steps.
 *
 * @param counts - whether it counts its work
 */
export function startEngine(container: DependencyContainer, counts: boolean): Engine {
  const observers = container.resolve(EngineObservers)
  for (const token of observing) observers.add(container.resolve(token))
  const speculator = container.resolve(Speculator)
  if (speculator.isOn) observers.add(speculator)
  if (counts) observers.add(container.resolve(Counters))
  if (container.isRegistered(tokens.ENGINE_OBSERVER))
    observers.add(...container.resolveAll(tokens.ENGINE_OBSERVER))
  const between = container.resolve(BetweenSteps)
  for (const token of working) between.add(container.resolve(token))
  if (container.isRegistered(tokens.LEARNED_STORE)) {
    const learning = container.resolve(Learning)
    learning.recall()
    between.add(learning)
  }
  return container.resolve(Engine)
}
