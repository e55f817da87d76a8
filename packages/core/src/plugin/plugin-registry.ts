import type {
  BackendFactory,
  PluginHost,
  PolicyFactory,
  ProtocolFactory,
} from '../contracts/plugin.js'
import type { SchedulerPolicy } from '../contracts/scheduler-policy.js'
import type { Protocol } from '../contracts/transport.js'
import { CllmError } from '../errors/cllm-error.js'

/** What plugins registered, by name. */
export class PluginRegistry implements PluginHost {
  readonly #policies = new Map<string, PolicyFactory>()
  readonly #backends = new Map<string, BackendFactory>()
  readonly #protocols = new Map<string, ProtocolFactory>()

  registerPolicy(name: string, create: PolicyFactory): void {
    add(this.#policies, 'policy', name, create)
  }

  registerBackend(name: string, create: BackendFactory): void {
    add(this.#backends, 'backend', name, create)
  }

  registerProtocol(name: string, create: ProtocolFactory): void {
    add(this.#protocols, 'protocol', name, create)
  }

  /** Every policy's name. */
  policyNames(): string[] {
    return [...this.#policies.keys()].toSorted()
  }

  /** Makes the policy of this name. Throws `invalid_policy` with the valid names. */
  createPolicy(name: string, options: Readonly<Record<string, unknown>> = {}): SchedulerPolicy {
    const create = this.#policies.get(name)
    if (create !== undefined) return create(options)
    const names = this.policyNames()
    const message = `policy: expected one of ${names.join(', ')}, instead got "${name}"`
    throw new CllmError('invalid_policy', message, { details: { field: 'policy', names } })
  }

  /** Makes every protocol that was registered. */
  createProtocols(): Protocol[] {
    return [...this.#protocols.values()].map((create) => create({}))
  }
}

function add<T>(map: Map<string, T>, kind: string, name: string, create: T): void {
  if (map.has(name)) {
    throw new CllmError('plugin_conflict', `A ${kind} named "${name}" is registered already`)
  }
  map.set(name, create)
}
