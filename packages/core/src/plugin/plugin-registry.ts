import type { Backend } from '../contracts/model/backend.js'
import { systemClock } from '../clock.js'
import type {
  BackendContext,
  BackendDefinition,
  BatchingDefinition,
  ModelSchedulerDefinition,
  OrderDefinition,
  PolicyDefinition,
  ProposerDefinition,
  ProtocolDefinition,
  RouterDefinition,
  SamplerDefinition,
  PartFactory,
  PartToken,
  PluginHost,
} from '../contracts/plugin.js'
import { type Logger, silentLogger } from '../contracts/services.js'
import type { ModelSource } from '../contracts/model/model-info.js'
import type { ModelScheduler, RouterPolicy } from '../contracts/scheduling/decisions.js'
import type { PolicyInfo, SchedulerPolicy } from '../contracts/scheduling/scheduler-policy.js'
import type { Protocol } from '../contracts/transport.js'
import { CllmError } from '../errors/cllm-error.js'
import { checkMade, parseKnown, type GivenOptions } from './checks.js'
import { Definitions, Catalog, ProtocolCatalog, SamplerCatalog } from './definitions.js'
import { answerable, blaming, PartCatalog, type PartChoice } from './part-catalog.js'
import { PolicyCatalog } from '../policy/policy-catalog.js'
import { ProposerCatalog } from '../engine/speculation/proposers.js'
import { CLOCK, LOGGER, MODEL_SOURCE } from '../tokens.js'

/** Everything that plug-ins registered, by kind and name. */
export class PluginRegistry implements PluginHost {
  readonly #policies = new PolicyCatalog()
  readonly #backends = new Definitions<BackendDefinition>('backend')
  readonly #protocols = new ProtocolCatalog()
  /** The samplers that requests can name. */
  readonly samplers = new SamplerCatalog()
  /** The proposers of draft tokens. */
  readonly proposers = new ProposerCatalog()
  /** The routers: which worker of a cluster gets a request. */
  readonly routers = new Catalog<RouterPolicy>('router', 'place')
  /** The model schedulers: which models are in memory. */
  readonly modelSchedulers = new Catalog<ModelScheduler>('model scheduler', 'decide')
  /** @internal Parts that plug-ins provide in place of built-in ones. */
  readonly parts = new PartCatalog()

  /** @throws `plugin_conflict` when the name is taken, `plugin_invalid` */
  registerPolicy(policy: PolicyDefinition): void {
    this.#policies.addPolicy(policy)
  }

  /**
   * @throws `plugin_conflict` when the name is taken, when a policy that the order makes with a batching
   *   exists, or when it shares an option with a batching; `plugin_invalid`
   */
  registerOrder(order: OrderDefinition): void {
    this.#policies.addOrder(order)
  }

  /**
   * @throws `plugin_conflict` when the name is taken, when a policy that the batching makes with an order
   *   exists, or when it shares an option with an order; `plugin_invalid`
   */
  registerBatching(batching: BatchingDefinition): void {
    this.#policies.addBatching(batching)
  }

  /** @throws `plugin_conflict` when the name is taken, `plugin_invalid` */
  registerBackend(backend: BackendDefinition): void {
    this.#backends.add(backend)
  }

  /** @throws `plugin_conflict` when the name is taken, `plugin_invalid` */
  registerSampler(sampler: SamplerDefinition): void {
    this.samplers.add(sampler)
  }

  /** @throws `plugin_conflict` when the name is taken, `plugin_invalid` */
  registerProposer(proposer: ProposerDefinition): void {
    this.proposers.add(proposer)
  }

  /** @throws `plugin_invalid`, or `plugin_conflict` when the name is taken and the protocol does not replace */
  registerProtocol(protocol: ProtocolDefinition): void {
    this.#protocols.add(protocol)
  }

  /** @throws `plugin_conflict` when the name is taken, `plugin_invalid` */
  registerRouter(router: RouterDefinition): void {
    this.routers.add(router)
  }

  /** @throws `plugin_conflict` when the name is taken, `plugin_invalid` */
  registerModelScheduler(scheduler: ModelSchedulerDefinition): void {
    this.modelSchedulers.add(scheduler)
  }

  /** @throws `plugin_conflict` when the token has a part of this name, `plugin_invalid` */
  provide<T>(token: PartToken<T>, name: string, create: PartFactory<T>): void {
    this.parts.add(token, name, create)
  }

  /**
   * Makes the logger that `use` names, or returns `original`. It is made before any engine, so its factory
   * can get `CLOCK` and no other part.
   *
   * @throws `invalid_configuration` with the valid names
   */
  createLogger(use: PartChoice, original: Logger): Logger {
    const create = this.parts.chosen(LOGGER, use)
    return create?.({ get: getClock, original: () => original }) ?? original
  }

  /** Makes every model source, by its scheme. Their factories can get `CLOCK` and no other part. */
  modelSources(): Map<string, ModelSource> {
    const original = (): never => {
      throw new CllmError('plugin_invalid', 'A model source replaces no built-in part')
    }
    const named = this.parts.named(MODEL_SOURCE)
    return new Map([...named].map(([name, create]) => [name, create({ get: getClock, original })]))
  }

  /** The batchings, in the order of registration. */
  get batchings(): readonly BatchingDefinition[] {
    return this.#policies.batchings
  }

  /** The orders, in the order of registration. */
  get orders(): readonly OrderDefinition[] {
    return this.#policies.orders
  }

  /** Every policy's name, sorted: whole policies, and every batching with every order. */
  policyNames(): string[] {
    return this.#policies.names
  }

  /** Every policy with the defaults of its options, by name. */
  policies(): PolicyInfo[] {
    return this.#policies.infos()
  }

  /**
   * Makes the policy of this name.
   *
   * @throws `invalid_policy` with the valid names, or with each option's problem
   */
  createPolicy(name: string, options: GivenOptions = {}): SchedulerPolicy {
    return this.#policies.create(name, options)
  }

  /**
   * Checks the options of the backend of this name without loading anything.
   *
   * @param own - options that are meant for this backend only: its schema has to know them
   * @returns the options with their defaults
   * @throws `invalid_configuration` with the valid names or each option's problem
   */
  checkBackend(name: string, options: GivenOptions, own: GivenOptions = {}): unknown {
    const { options: schema } = this.#backends.find(name, this.#backends.names.toSorted())
    if (schema === undefined) return options
    try {
      return parseKnown(schema, options, own)
    } catch (error) {
      throw this.#backends.explained(name, error)
    }
  }

  /**
   * Makes the backend of this name.
   *
   * @throws `invalid_configuration` with the valid names or each option's problem, and what the backend
   *   throws
   */
  async createBackend(
    name: string,
    options: GivenOptions = {},
    context: BackendContext = { clock: systemClock, logger: silentLogger },
  ): Promise<Backend> {
    const checked = this.checkBackend(name, options)
    try {
      const definition = this.#backends.get(name)!
      const made = checkMade('backend', name, await definition.create(checked, context), 'step')
      if (definition.isTrusted === true) return made
      return answerable(made, blaming(`backend "${name}"`, 'backend_failed', { backend: name }))
    } catch (error) {
      if (CllmError.isInstance(error)) throw error
      throw this.#backends.explained(name, error)
    }
  }

  /** The protocols' names, in the order of registration. */
  protocolNames(): string[] {
    return this.#protocols.names
  }

  /**
   * Makes the protocol of this name.
   *
   * @throws `invalid_configuration` with the valid names, or with each option's problem
   */
  createProtocol(name: string, options: GivenOptions = {}, context: unknown = {}): Protocol {
    return this.#protocols.create(name, options, context)
  }
}

/** Resolves the parts that a factory can get outside of an engine: the clock only. */
function getClock<T>(token: PartToken<T>): T {
  if (token === CLOCK) return systemClock as T
  const message = 'This part is made outside of an engine: it can get CLOCK only'
  throw new CllmError('plugin_invalid', message)
}
