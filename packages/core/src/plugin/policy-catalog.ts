import { entryOf } from '../defined.js'
import type {
  BatchingDefinition,
  Definition,
  OrderDefinition,
  PolicyDefinition,
} from '../contracts/plugin.js'
import type { PolicyInfo, SchedulerPolicy } from '../contracts/scheduling/scheduler-policy.js'
import { CllmError, didYouMean } from '../errors/cllm-error.js'
import { composePolicy } from '../policy/compose-policy.js'
import {
  parseOptions,
  checkDefinition,
  checkFree,
  checkHalf,
  checkMade,
  optionProblems,
} from './checks.js'

type Create = (options: Readonly<Record<string, unknown>>) => SchedulerPolicy

/** The policies by name: whole ones, and every batching with every order. */
export class PolicyCatalog {
  readonly #batchings = new Map<string, BatchingDefinition>()
  readonly #orders = new Map<string, OrderDefinition>()
  readonly #policies = new Map<string, Create>()
  readonly #infos = new Map<string, PolicyInfo>()

  /** The batchings, as they were added. */
  get batchings(): readonly BatchingDefinition[] {
    return [...this.#batchings.values()]
  }

  /** The orders, as they were added. */
  get orders(): readonly OrderDefinition[] {
    return [...this.#orders.values()]
  }

  /** Every policy's name, sorted. */
  get names(): string[] {
    return [...this.#policies.keys()].toSorted()
  }

  /** @throws `plugin_invalid`, or `plugin_conflict` when there is one of this name */
  addPolicy(policy: PolicyDefinition): void {
    checkDefinition('policy', policy)
    checkFree(this.#policies, 'policy', policy.name)
    this.#policies.set(policy.name, (given) => {
      const [options] = parseOptions(policy.name, [policy], given)
      return policy.create(options)
    })
  }

  /** @throws `plugin_invalid`, or `plugin_conflict` when one of its name or options is taken */
  addOrder(order: OrderDefinition): void {
    checkHalf('order', order)
    checkFree(this.#orders, 'order', order.name)
    this.#addPairs('order', order, this.batchings, [order])
    this.#orders.set(order.name, order)
  }

  /** @throws `plugin_invalid`, or `plugin_conflict` when one of its name or options is taken */
  addBatching(batching: BatchingDefinition): void {
    checkHalf('batching', batching)
    checkFree(this.#batchings, 'batching', batching.name)
    this.#addPairs('batching', batching, [batching], this.orders)
    this.#batchings.set(batching.name, batching)
  }

  /** Every policy with the defaults of its options, by name. */
  infos(): PolicyInfo[] {
    return this.names.map((name) =>
      entryOf(this.#infos, name, () => {
        try {
          return { name, options: this.create(name, {}).options ?? {} }
        } catch {
          return { name }
        }
      }),
    )
  }

  /** @throws `invalid_policy` or `plugin_invalid` */
  create(name: string, options: Readonly<Record<string, unknown>>): SchedulerPolicy {
    const create = this.#policies.get(name)
    if (create === undefined) throw this.#unknown(name)
    let policy: SchedulerPolicy
    try {
      policy = create(options)
    } catch (error) {
      const isTold = CllmError.isInstance(error) && told.includes(error.code)
      if (isTold) throw error
      const problems = optionProblems(error)
      const message = `policy "${name}": ${problems.join('; ')}`
      const details = { policy: name, problems }
      throw new CllmError('invalid_policy', message, { details, cause: error })
    }
    return checkMade('policy', name, policy, 'name', 'plan')
  }

  #addPairs(
    kind: string,
    { name }: Definition<unknown>,
    batchings: readonly BatchingDefinition[],
    orders: readonly OrderDefinition[],
  ): void {
    const pairs = batchings.flatMap((one) => orders.map((two) => [one, two] as const))
    const named = pairs.map((pair) => ({ pair, policy: pair.map((half) => half.name).join('+') }))
    // All are checked before the first one is added: a half is there with all its pairs or not at all.
    for (const { pair, policy } of named) {
      checkFree(this.#policies, 'policy', policy)
      const [its, others] = pair.map(optionNames) as [string[], string[]]
      const both = its.find((option) => others.includes(option))
      if (both === undefined) continue
      const message = `The ${kind} "${name}" makes the policy "${policy}", whose halves both have an option "${both}"`
      throw new CllmError('plugin_conflict', message, { details: { [kind]: name, policy } })
    }
    for (const { pair, policy } of named) {
      this.#policies.set(policy, (options) => composePolicy(...pair, options))
    }
  }

  #unknown(name: string): CllmError {
    const { names, batchings, orders } = this
    const pairs = new Set(
      batchings.flatMap((one) => orders.map((two) => `${one.name}+${two.name}`)),
    )
    const whole = names.filter((policy) => !pairs.has(policy))
    const expected = [
      ...(pairs.size === 0 ? [] : [`batching+order, ${listed(batchings, orders)}`]),
      ...(whole.length === 0 ? [] : [`one of ${whole.join(', ')}`]),
    ]
    const hint = expected.length === 0 ? 'none is registered' : `expected ${expected.join(', or ')}`
    const message = `There is no policy "${name}": ${hint}${didYouMean(name, names)}`
    const details = { field: 'policy', policy: name, valid: names }
    return new CllmError('invalid_policy', message, { details })
  }
}

/** Errors that say by themselves which policy is wrong, and how. */
const told: readonly string[] = ['invalid_policy', 'plugin_invalid']

function listed(
  batchings: readonly Definition<unknown>[],
  orders: readonly Definition<unknown>[],
): string {
  const names = (definitions: readonly Definition<unknown>[]) =>
    definitions.map(({ name }) => name).join(', ')
  return `of the batchings ${names(batchings)} and the orders ${names(orders)}`
}

const optionNames = ({ options }: Definition<unknown>): string[] =>
  Object.keys(options?.shape ?? {})
