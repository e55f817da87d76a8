import type { InjectionToken } from 'tsyringe'
import type { Backend } from './contracts/model/backend.js'
import type { SlotFiles } from './contracts/engine/slot-files.js'
import type { StateFiles, StateMemorySource } from './contracts/engine/state-files.js'
import type { Clock, Random } from './contracts/clock.js'
import type { EngineObserver } from './contracts/engine/engine-observer.js'
import type { Logger } from './contracts/logger.js'
import type { SchedulerPolicy } from './contracts/scheduling/scheduler-policy.js'
import type { Tokenizer } from './contracts/model/tokenizer.js'
import type { ModelSource } from './contracts/model-source.js'
import type { AdapterTable } from './engine/features/adapters.js'
import type { Embeddings } from './engine/features/embeddings.js'
import type { EngineOptions } from './engine/engine-options.js'
import type { SlotActions } from './engine/kv/states/slot-actions.js'
import type { ActivityWatch } from './engine/report/activity-watch.js'
import type { EngineCosts } from './engine/costs/engine-costs.js'
import type {
  Admission,
  Features,
  KVCacheManager,
  PrefixIndex,
  WaitPredictor,
} from './engine/engine-parts.js'
import type { FallbackPolicy } from './engine/loop/policy-runner.js'
import type { DraftBackend, ProposerCatalog } from './engine/speculation/proposer-catalog.js'
import type { SamplerCatalog } from './engine/input/sampler-catalog.js'

/**
 * A token for the container. `Symbol.for` makes it the same in every copy of the package; the type
 * parameter is the type it resolves to.
 */
export function token<T>(name: string): InjectionToken<T> {
  return Symbol.for(`cllm.${name}`)
}

/** The {@link Backend}. */
export const BACKEND = token<Backend>('Backend')
/** The {@link Tokenizer}, by default the backend's. */
export const TOKENIZER = token<Tokenizer>('Tokenizer')
/** The {@link SchedulerPolicy} that the engine starts with. */
export const SCHEDULER_POLICY = token<SchedulerPolicy>('SchedulerPolicy')
/** The {@link FallbackPolicy}. */
export const FALLBACK_POLICY = token<FallbackPolicy>('FallbackPolicy')
/** The {@link SamplerCatalog}: the samplers of plug-ins. */
export const SAMPLERS = token<SamplerCatalog>('Samplers')
/** The {@link ProposerCatalog}: the proposers of draft tokens. */
export const PROPOSERS = token<ProposerCatalog>('Proposers')
/** The {@link DraftBackend}: the draft model, if there is one. */
export const DRAFT_BACKEND = token<DraftBackend>('DraftBackend')
/** The {@link Clock}. */
export const CLOCK = token<Clock>('Clock')
/** The {@link Random} source for ids and seeds. */
export const RANDOM = token<Random>('Random')
/** The {@link Logger}. */
export const LOGGER = token<Logger>('Logger')
/** Where the {@link StateFiles} are, if anywhere, and what gives memory for states. */
export const STATE_FILES = token<{
  readonly files?: StateFiles
  readonly memory?: StateMemorySource
}>('StateFiles')
/** Where the {@link SlotFiles} are, if anywhere. */
export const SLOT_FILES = token<{ readonly files?: SlotFiles }>('SlotFiles')
/** The {@link EngineOptions}. */
export const ENGINE_OPTIONS = token<EngineOptions>('EngineOptions')
/** The {@link Admission}: which requests may join the queue. Experimental. */
export const ADMISSION = token<Admission>('Admission')
/** The {@link WaitPredictor} behind forecasts and `--max-queue-wait`. Experimental. */
export const WAIT_PREDICTOR = token<WaitPredictor>('WaitPredictor')
/** The {@link KVCacheManager}. Experimental. */
export const KV_CACHE_MANAGER = token<KVCacheManager>('KVCacheManager')
/** The {@link PrefixIndex} of the KV cache manager. Experimental. */
export const PREFIX_INDEX = token<PrefixIndex>('PrefixIndex')
/** The {@link EngineCosts} that the engine's parts share. */
export const ENGINE_COSTS = token<EngineCosts>('EngineCosts')
/** The {@link AdapterTable}: the adapters that requests can name. */
export const ADAPTERS = token<AdapterTable>('Adapters')
/** The `ActivityWatch`: what requests do, for a live view. */
export const ACTIVITY = token<ActivityWatch>('Activity')
/** The `Embeddings`. */
export const EMBEDDINGS = token<Embeddings>('Embeddings')
/** The `SlotActions`: saves, restores and erases slots. */
export const SLOT_ACTIONS = token<SlotActions>('SlotActions')
/** The {@link Features} of the engine. */
export const FEATURES = token<Features>('Features')
/** An {@link EngineObserver}; all that are registered are added to the engine. */
export const ENGINE_OBSERVER = token<EngineObserver>('EngineObserver')
/** A {@link ModelSource}; the name that it is provided under is its scheme. Experimental. */
export const MODEL_SOURCE = token<ModelSource>('ModelSource')
