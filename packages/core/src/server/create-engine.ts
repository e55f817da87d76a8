import { container as root, type DependencyContainer } from 'tsyringe'
import { systemClock } from '../clock/system-clock.js'
import { systemRandom } from '../clock/system-random.js'
import type { Backend } from '../contracts/backend.js'
import type { Clock, Random } from '../contracts/clock.js'
import { silentLogger, type Logger } from '../contracts/logger.js'
import type { SchedulerPolicy } from '../contracts/scheduler-policy.js'
import type { Tokenizer } from '../contracts/tokenizer.js'
import { Engine } from '../engine/engine.js'
import { defaultEngineOptions, type EngineOptions } from '../engine/engine-options.js'
import type { FallbackPolicy } from '../engine/policy-seat.js'
import * as tokens from '../tokens.js'

/** What an engine is made of. Only the backend and the policy have no default. */
export interface EngineParts {
  readonly backend: Backend
  readonly policy: SchedulerPolicy
  /**
   * Makes the policy that takes over, until another one is set, from one that throws, makes a wrong
   * plan or runs nobody for too long. Default: none; such a failure then fails every request there is.
   */
  readonly fallbackPolicy?: () => SchedulerPolicy
  /** Default: the backend's. */
  readonly tokenizer?: Tokenizer
  /** Default: real time. */
  readonly clock?: Clock
  /** Default: the operating system's generator. */
  readonly random?: Random
  /** Default: silent. */
  readonly logger?: Logger
  /** Default: {@link defaultEngineOptions}. */
  readonly options?: Partial<EngineOptions>
}

/** Wires an engine in a container of its own. It starts at once and sleeps until a request comes. */
export function createEngine(parts: EngineParts): Engine {
  const { backend, policy, fallbackPolicy } = parts
  const fallback: FallbackPolicy = fallbackPolicy === undefined ? {} : { create: fallbackPolicy }
  const container: DependencyContainer = root.createChildContainer()
  container.registerInstance(tokens.BACKEND, backend)
  container.registerInstance(tokens.TOKENIZER, parts.tokenizer ?? backend.tokenizer)
  container.registerInstance(tokens.SCHEDULER_POLICY, policy)
  container.registerInstance(tokens.FALLBACK_POLICY, fallback)
  container.registerInstance(tokens.CLOCK, parts.clock ?? systemClock)
  container.registerInstance(tokens.RANDOM, parts.random ?? systemRandom)
  container.registerInstance(tokens.LOGGER, parts.logger ?? silentLogger)
  container.registerInstance(tokens.ENGINE_OPTIONS, { ...defaultEngineOptions, ...parts.options })
  return container.resolve(Engine)
}
