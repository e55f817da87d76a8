import type { InjectionToken } from 'tsyringe'
import type { Backend } from './contracts/model/backend.js'
import type { SlotFiles, StateFiles, StateMemorySource } from './contracts/model/states.js'
import type { LearnedStore, Clock, Random, Logger } from './contracts/services.js'
import type { EngineObserver } from './contracts/engine/engine-observer.js'
import type { SchedulerPolicy } from './contracts/scheduling/scheduler-policy.js'
import type { Tokenizer } from './contracts/model/tokenizer.js'
import type { ModelSource } from './contracts/model/model-info.js'

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
/** The {@link LearnedStore}. */
export const LEARNED_STORE = token<LearnedStore>('LearnedStore')
/** Where the {@link SlotFiles} are, if anywhere. */
export const SLOT_FILES = token<{ readonly files?: SlotFiles }>('SlotFiles')
/** An {@link EngineObserver}; all that are registered are added to the engine. */
export const ENGINE_OBSERVER = token<EngineObserver>('EngineObserver')
/** A {@link ModelSource}; the name that it is provided under is its scheme. Experimental. */
export const MODEL_SOURCE = token<ModelSource>('ModelSource')
