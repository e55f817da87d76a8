import { type DependencyContainer, type InjectionToken, Lifecycle } from 'tsyringe'
import { AdapterTable } from './adapters/adapter-table.js'
import { BetweenSteps } from './loop/between-steps.js'
import { EngineCosts } from './costs/engine-costs.js'
import { FcfsWaitPredictor } from './costs/wait-predictor.js'
import { Embeddings } from './embeddings.js'
import { QueueLimits } from './input/admission.js'
import { InputProcessor } from './input/input-processor.js'
import { PartQueue } from './input/part-queue.js'
import { InFlightPrefixSharing } from './kv/in-flight-prefix-sharing.js'
import { KvPool } from './kv/kv-pool.js'
import { SlotCacheManager } from './kv/kv-cache-manager.js'
import { BlockPrefixIndex } from './kv/prefix-index.js'
import { SlotCompactor } from './kv/slot-compactor.js'
import { Checkpoints } from './kv/states/checkpoints.js'
import { SlotActions } from './kv/states/slot-actions.js'
import { StateCache } from './kv/states/state-cache.js'
import { OutputProcessor } from './output/output-processor.js'
import { PolicyRunner } from './policy/policy-runner.js'
import { ActivityWatch } from './report/activity-watch.js'
import { Counters } from './report/counters.js'
import { EngineObservers } from './report/engine-observers.js'
import { MakeWay } from './loop/make-way.js'
import { RequestTracker } from './report/request-tracker.js'
import { RequestFinisher } from './requests/request-finisher.js'
import { RequestTable } from './requests/request-table.js'
import { RunningSet } from './requests/running-set.js'
import { WaitingQueue } from './requests/waiting-queue.js'
import { StepPlanner } from './loop/step-planner.js'
import { Speculator } from './speculation/speculator.js'
import { WakeSignal } from './loop/wake-signal.js'
import { Engine } from './engine.js'
import * as tokens from '../tokens.js'

/** The parts that a plug-in can replace, by token. */
export const builtInParts: ReadonlyMap<InjectionToken<unknown>, InjectionToken<unknown>> = new Map<
  InjectionToken<unknown>,
  InjectionToken<unknown>
>([
  [tokens.PREFIX_INDEX, BlockPrefixIndex],
  [tokens.KV_CACHE_MANAGER, SlotCacheManager],
  [tokens.WAIT_PREDICTOR, FcfsWaitPredictor],
  [tokens.ADMISSION, QueueLimits],
])

/** One of each in an engine. */
const fixed = [
  ActivityWatch,
  AdapterTable,
  BetweenSteps,
  BlockPrefixIndex,
  FcfsWaitPredictor,
  QueueLimits,
  SlotCacheManager,
  EngineCosts,
  Checkpoints,
  Counters,
  Embeddings,
  Engine,
  EngineObservers,
  InFlightPrefixSharing,
  InputProcessor,
  KvPool,
  MakeWay,
  OutputProcessor,
  PartQueue,
  PolicyRunner,
  RequestFinisher,
  RequestTable,
  RequestTracker,
  RunningSet,
  SlotActions,
  SlotCompactor,
  Speculator,
  StepPlanner,
  StateCache,
  WaitingQueue,
  WakeSignal,
] as const

/** Registers the classes of an engine, one instance of each; nothing is made yet. */
export function registerEngine(container: DependencyContainer): void {
  const once = { lifecycle: Lifecycle.ContainerScoped }
  for (const useClass of fixed) container.register<unknown>(useClass, { useClass }, once)
  container.register(tokens.ENGINE_COSTS, { useToken: EngineCosts })
  for (const [token, useToken] of builtInParts) container.register(token, { useToken })
}
