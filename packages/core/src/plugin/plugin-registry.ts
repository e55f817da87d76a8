import type { Backend } from '../contracts/backend.js'
import type {
  BackendFactory,
  PluginHost,
  PolicyFactory,
  ProtocolFactory,
} from '../contracts/plugin.js'
import type { PolicyInfo } from '../contracts/scheduler-info.js'
import type { SchedulerPolicy } from '../contracts/scheduler-policy.js'
import type { Protocol } from '../contracts/transport.js'
import { CllmError } from '../errors/cllm-error.js'
import type { ErrorCode } from '../errors/error-table.js'
import { didYouMean } from './did-you-mean.js'
import { optionProblems } from './option-problems.js'

/** What plugins registered, by name. */
export class PluginRegistry implements PluginHost {
  readonly #policies = new Map<string, PolicyFactory>()
  readonly #infos = new Map<string, PolicyInfo>()
  readonly #backends = new Map<string, BackendFactory>()
  readonly #protocols = new Map<string, ProtocolFactory>()

  /** @throws `plugin_conflict` when there is one of this name */
  registerPolicy(name: string, create: PolicyFactory): void {
    add(this.#policies, 'policy', name, create)
  }

  /** @throws `plugin_conflict` when there is one of this name */
  registerBackend(name: string, create: BackendFactory): void {
    add(this.#backends, 'backend', name, create)
  }

  /** @throws `plugin_conflict` when there is one of this name */
  registerProtocol(name: string, create: ProtocolFactory): void {
    add(this.#protocols, 'protocol', name, create)
  }

  /** Every policy's name. */
  policyNames(): string[] {
    return [...this.#policies.keys()].toSorted()
  }

  /** Every policy with the defaults of its options, by name. */
  policies(): PolicyInfo[] {
    return this.policyNames().map((name) => this.#info(name))
  }

  /**
   * Makes the policy of this name.
   *
   * @throws `invalid_policy` with the valid names, or with what is wrong with which option
   */
  createPolicy(name: string, options: Readonly<Record<string, unknown>> = {}): SchedulerPolicy {
    const create = find(this.#policies, 'policy', name, 'invalid_policy')
    let policy: SchedulerPolicy
    try {
      policy = create(options)
    } catch (error) {
      if (CllmError.isInstance(error) && error.code === 'invalid_policy') throw error
      throw explained('policy', name, 'invalid_policy', error)
    }
    if (typeof policy?.name === 'string' && typeof policy.plan === 'function') return policy
    const message = `policy "${name}": its factory made no policy, which has a name and a plan method`
    throw new CllmError('plugin_invalid', message, { details: { policy: name } })
  }

  /**
   * Makes the backend of this name.
   *
   * @throws `invalid_configuration` with the valid names or what is wrong with which option, and what
   *   the backend throws
   */
  async createBackend(
    name: string,
    options: Readonly<Record<string, unknown>> = {},
  ): Promise<Backend> {
    const create = find(this.#backends, 'backend', name, 'invalid_configuration')
    try {
      return await create(options)
    } catch (error) {
      if (CllmError.isInstance(error)) throw error
      throw explained('backend', name, 'invalid_configuration', error)
    }
  }

  /** Makes every protocol that was registered, each with its defaults. */
  createProtocols(): Protocol[] {
    return [...this.#protocols.values()].map((create) => create({}))
  }

  #info(name: string): PolicyInfo {
    let info = this.#infos.get(name)
    if (info === undefined) {
      try {
        info = { name, options: this.createPolicy(name).options ?? {} }
      } catch {
        info = { name }
      }
      this.#infos.set(name, info)
    }
    return info
  }
}

function add<T>(factories: Map<string, T>, kind: string, name: string, create: T): void {
  if (typeof name !== 'string' || name === '' || typeof create !== 'function') {
    const message = `A ${kind} is registered with a name and a function that makes it`
    throw new CllmError('plugin_invalid', message)
  }
  if (factories.has(name)) {
    const message = `A ${kind} named "${name}" is registered already`
    throw new CllmError('plugin_conflict', message, { details: { [kind]: name } })
  }
  factories.set(name, create)
}

function find<T>(
  factories: ReadonlyMap<string, T>,
  kind: string,
  name: string,
  code: ErrorCode,
): T {
  const create = factories.get(name)
  if (create !== undefined) return create
  const names = [...factories.keys()].toSorted()
  const expected = names.length === 0 ? 'none is registered' : `expected one of ${names.join(', ')}`
  const message = `${kind}: ${expected}, instead got "${name}"${didYouMean(name, names)}`
  throw new CllmError(code, message, { details: { field: kind, valid: names } })
}

/** An error of a factory that says what was to be made. */
function explained(kind: string, name: string, code: ErrorCode, error: unknown): CllmError {
  const problems = optionProblems(error)
  const message = `${kind} "${name}": ${problems.join('; ')}`
  return new CllmError(code, message, { details: { [kind]: name, problems }, cause: error })
}
