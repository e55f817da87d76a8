import type { InjectionToken } from 'tsyringe'
import type { Backend } from './contracts/backend.js'
import type { Clock, Random } from './contracts/clock.js'
import type { EngineDirectory } from './contracts/engine-directory.js'
import type { Logger } from './contracts/logger.js'
import type { SchedulerPolicy } from './contracts/scheduler-policy.js'
import type { Tokenizer } from './contracts/tokenizer.js'
import type { EngineOptions } from './engine/engine-options.js'
import type { FallbackPolicy } from './engine/policy-seat.js'

/**
 * A token for the container. `Symbol.for` makes it the same in every copy of the package; the type
 * parameter says what it resolves to.
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
/** The {@link Clock}. */
export const CLOCK = token<Clock>('Clock')
/** The {@link Random} source for ids and seeds. */
export const RANDOM = token<Random>('Random')
/** The {@link Logger}. */
export const LOGGER = token<Logger>('Logger')
/** The {@link EngineOptions}. */
export const ENGINE_OPTIONS = token<EngineOptions>('EngineOptions')
/** The {@link EngineDirectory} that transports serve. */
export const ENGINE_DIRECTORY = token<EngineDirectory>('EngineDirectory')
