import { type DependencyContainer, container as root, instanceCachingFactory } from 'tsyringe'
import { systemClock, systemRandom } from '../clock.js'
import type { Backend } from '../contracts/model/backend.js'
import { type LearnedStore, type Services, silentLogger } from '../contracts/services.js'
import type { SlotFiles, StateFiles, StateMemorySource } from '../contracts/model/states.js'
import type { EngineObserver } from '../contracts/engine/engine-observer.js'
import type { PartToken } from '../contracts/plugin.js'
import type { SchedulerPolicy } from '../contracts/scheduling/scheduler-policy.js'
import type { Tokenizer } from '../contracts/model/tokenizer.js'
import { CllmError, didYouMean } from '../errors/cllm-error.js'
import type { Engine } from '../engine/engine.js'
import { checkBackend, checkTokenizer } from '../engine/backend-calls.js'
import { builtInParts, registerEngine, startEngine } from '../engine/register-engine.js'
import {
  ENGINE_OPTIONS,
  type EngineOptions,
  defaultEngineOptions,
} from '../engine/engine-options.js'
import {
  DRAFT_BACKEND,
  PROPOSERS,
  type ProposerCatalog,
  checkDraftBackend,
  draftModelName,
} from '../engine/speculation/proposers.js'
import { FALLBACK_POLICY, type FallbackPolicy } from '../engine/loop/policy-runner.js'
import { PluginRegistry } from '../plugin/plugin-registry.js'
import { type PartCatalog, type PartChoice, replaceableParts } from '../plugin/part-catalog.js'
import { defined } from '../defined.js'
import * as tokens from '../tokens.js'
import { SAMPLERS } from '../plugin/definitions.js'

/**
 * The parts of an engine. Only the backend and the policy have no default; the services are by default real time, the
 * operating system's generator of random numbers, and a logger that is silent.
 */
export interface EngineParts extends Partial<Services> {
  readonly backend: Backend
  /**
   * A smaller model of the same vocabulary, which drafts tokens for the option `speculative: 'draft'`. The
   * engine never disposes of it. Default: none.
   */
  readonly draftBackend?: Backend
  readonly policy: SchedulerPolicy
  /**
   * Makes the policy that replaces a failing one: one that throws, makes a wrong plan or runs no request for
   * too long. It stays until another policy is set. Default: none; such a failure then fails every request.
   */
  readonly fallbackPolicy?: () => SchedulerPolicy
  /** Default: the backend's. */
  readonly tokenizer?: Tokenizer
  /** Default: {@link defaultEngineOptions}. */
  readonly options?: Partial<EngineOptions>
  /** Keeps states of slots on disk over restarts; needs `cacheRamBytes`. Default: states are not kept. */
  readonly stateFiles?: StateFiles
  /** Allocates memory for states of slots. Default: the runtime's own memory. */
  readonly stateMemory?: StateMemorySource
  /** Files of slots that clients save and restore. Default: clients cannot. */
  readonly slotFiles?: SlotFiles
  /** Keeps over restarts what the engine learns about costs and drafts. Default: it learns anew. */
  readonly learned?: LearnedStore
  /** Observes everything that happens in the engine. Default: none. */
  readonly observers?: readonly EngineObserver[]
  /**
   * Whether the engine's statistics count its work. An engine in its own process need not: the process that
   * receives its steps counts them. Default true.
   */
  readonly counts?: boolean
  /** The parts and samplers that plug-ins provide; its observers are added too. Default: none. */
  readonly registry?: PluginRegistry
  /** Which provided parts are used in place of built-in ones. Default: none. */
  readonly use?: PartChoice
}

/**
 * Wires an engine in its own container. The engine starts at once and sleeps until a request comes.
 *
 * @throws `invalid_configuration` for a part in `use` or a proposer that the registry does not have, for
 *   options that the proposer does not take, for a draft model of another vocabulary, and for the option
 *   `contextShift` where the backend cannot shift; `plugin_invalid` for a backend that lacks methods
 */
export function createEngine(parts: EngineParts): Engine {
  const { backend, policy, fallbackPolicy } = parts
  const fallback: FallbackPolicy = fallbackPolicy === undefined ? {} : { create: fallbackPolicy }
  checkBackend(backend)
  if (parts.options?.contextShift === true && backend.shift === undefined) {
    const message = 'contextShift: expected false, as the memory of this model cannot be shifted'
    throw new CllmError('invalid_configuration', message, { details: { field: 'contextShift' } })
  }
  const container = root.createChildContainer()
  container.registerInstance(tokens.BACKEND, backend)
  container.registerInstance(tokens.TOKENIZER, parts.tokenizer ?? backend.tokenizer)
  container.registerInstance(tokens.SCHEDULER_POLICY, policy)
  container.registerInstance(FALLBACK_POLICY, fallback)
  container.registerInstance(tokens.CLOCK, parts.clock ?? systemClock)
  container.registerInstance(tokens.RANDOM, parts.random ?? systemRandom)
  container.registerInstance(tokens.LOGGER, parts.logger ?? silentLogger)
  container.registerInstance(ENGINE_OPTIONS, { ...defaultEngineOptions, ...parts.options })
  const { stateFiles: files, stateMemory: memory, slotFiles } = parts
  container.registerInstance(tokens.STATE_FILES, defined({ files, memory }))
  if (files !== undefined) parts.backend.media?.keepIn?.(files)
  container.registerInstance(tokens.SLOT_FILES, defined({ files: slotFiles }))
  if (parts.learned !== undefined) container.registerInstance(tokens.LEARNED_STORE, parts.learned)
  const { registry = new PluginRegistry() } = parts
  const { samplers, proposers } = registry
  container.registerInstance(SAMPLERS, samplers)
  // Checked here, because the container would wrap the error.
  checkSpeculation(parts, proposers)
  container.registerInstance(DRAFT_BACKEND, defined({ backend: parts.draftBackend }))
  container.registerInstance(PROPOSERS, proposers)
  registerEngine(container)
  useProvided(container, registry.parts, parts.use ?? {})
  checkTokenizer(container.resolve(tokens.TOKENIZER))
  for (const observer of parts.observers ?? []) {
    container.registerInstance(tokens.ENGINE_OBSERVER, observer)
  }
  return startEngine(container, parts.counts ?? true)
}

function checkSpeculation(
  { backend, draftBackend, options = {} }: EngineParts,
  proposers: ProposerCatalog,
): void {
  const { speculative, proposerOptions } = { ...defaultEngineOptions, ...options }
  if (draftBackend !== undefined) checkDraftBackend(draftBackend, backend)
  if (draftBackend !== undefined && speculative === draftModelName) return
  proposers.check(speculative, proposerOptions)
}

/** Registers the plug-ins' parts that `use` names in place of the built-in ones. */
function useProvided(container: DependencyContainer, parts: PartCatalog, use: PartChoice): void {
  parts.check(use)
  const get = <T>(token: PartToken<T>): T => container.resolve(token)
  for (const token of Object.values(replaceableParts)) {
    const create = parts.chosen(token, use)
    if (create === undefined) continue
    const original = originalOf(container, token)
    const useFactory = instanceCachingFactory(() => create({ get, original }))
    container.register(token, { useFactory })
  }
  for (const create of parts.named(tokens.ENGINE_OBSERVER).values()) {
    const useFactory = instanceCachingFactory(() => create({ get, original: () => ({}) }))
    container.register(tokens.ENGINE_OBSERVER, { useFactory })
  }
}

/** Resolves the part that a plug-in replaces: made when it is asked for, or the instance the engine was given. */
function originalOf(container: DependencyContainer, token: PartToken<unknown>): () => unknown {
  const [, builtIn] = builtInParts.find(([part]) => part === token) ?? []
  if (builtIn !== undefined) return () => container.resolve<unknown>(builtIn)
  const given = container.resolve(token)
  return () => given
}

const example = '[koaTransport({ port: 8080, protocols: [openAiProtocol()] })]'

/**
 * Checks the parts of a server that JavaScript, which has no types, may have wrong.
 *
 * @param names - all parts that there are
 * @param needed - lists of parts: one part of each list must be given
 * @throws `invalid_configuration` for a part that is unknown, missing or no list of transports
 */
export function checkServerParts(
  parts: object,
  names: readonly string[],
  needed: readonly (readonly string[])[],
): void {
  const unknown = Object.keys(parts).find((name) => !names.includes(name))
  if (unknown !== undefined) {
    const meant =
      unknown === 'model' ? "; a model's name is for serve of cllm" : didYouMean(unknown, names)
    throw wrong(unknown, `there is no part "${unknown}" (there are ${names.join(', ')})${meant}`)
  }
  const missing = needed.find((names) => !names.some((name) => name in parts))
  if (missing !== undefined) throw wrong(missing[0]!, `${missing.join(' or ')} is missing`)
  const { transports } = parts as { readonly transports?: unknown }
  if (transports === undefined) {
    throw wrong('transports', `transports is missing: expected a list such as ${example}`)
  }
  if (!Array.isArray(transports) || transports.some((one) => typeof one !== 'function')) {
    throw wrong('transports', `transports: expected a list such as ${example}`)
  }
}

function wrong(field: string, problem: string): CllmError {
  const message = `createServer: ${problem}`
  return new CllmError('invalid_configuration', message, { details: { field } })
}
