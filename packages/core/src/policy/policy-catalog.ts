import { entryOf } from '../defined.js'
import type {
  BatchingDefinition,
  Definition,
  OrderDefinition,
  PolicyDefinition,
} from '../contracts/plugin.js'
import type {
  PolicyInfo,
  SchedulerPolicy,
  SchedulerState,
  SequenceView,
} from '../contracts/scheduling/scheduler-policy.js'
import { attempt, CllmError, didYouMean } from '../errors/cllm-error.js'
import {
  parseOptions,
  checkDefinition,
  checkFree,
  checkHalf,
  checkMade,
  optionProblems,
  type GivenOptions,
  synchronous,
} from '../plugin/checks.js'
import type { Batching, Step, Order } from '../contracts/scheduling/decisions.js'
import { type Requests, StepGroups } from './step-groups.js'

type Create = (options: GivenOptions) => SchedulerPolicy

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
    const infoOf = (name: string): PolicyInfo =>
      attempt(() => ({ name, options: this.create(name, {}).options ?? {} }), { name })
    return this.names.map((name) => entryOf(this.#infos, name, () => infoOf(name)))
  }

  /** @throws `invalid_policy` or `plugin_invalid` */
  create(name: string, options: GivenOptions): SchedulerPolicy {
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
    const { names } = this
    const namesOf = (halves: readonly Definition<unknown>[]) => halves.map((half) => half.name)
    const [batchings, orders] = [namesOf(this.batchings), namesOf(this.orders)]
    const pairs = new Set(batchings.flatMap((a) => orders.map((b) => `${a}+${b}`)))
    const policies = names.filter((policy) => !pairs.has(policy))
    const halves = `the batchings ${batchings.join(', ')} and the orders ${orders.join(', ')}`
    const expected = [
      ...(pairs.size === 0 ? [] : [`batching+order, of ${halves}`]),
      ...(policies.length === 0 ? [] : [`one of ${policies.join(', ')}`]),
    ]
    const hint = expected.length === 0 ? 'none is registered' : `expected ${expected.join(', or ')}`
    const message = `There is no policy "${name}": ${hint}${didYouMean(name, names)}`
    const details = { field: 'policy', policy: name, valid: { batchings, orders, policies } }
    return new CllmError('invalid_policy', message, { details })
  }
}

/** Errors that say by themselves which policy is wrong, and how. */
const told: readonly string[] = ['invalid_policy', 'plugin_invalid']

const optionNames = ({ options }: Definition<unknown>): string[] =>
  Object.keys(options?.shape ?? {})

/**
 * A policy that is the product of two independent decisions: what a step computes and which request
 * is next. It is named `batching+order`, such as `adaptive+fcfs`, and has the options of both.
 *
 * @throws `invalid_policy` for an option that neither has, or a wrong value
 */
export function composePolicy(
  batching: BatchingDefinition,
  order: OrderDefinition,
  options: GivenOptions = {},
): SchedulerPolicy {
  const name = `${batching.name}+${order.name}`
  const [ofBatching, ofOrder] = parseOptions(name, [batching, order], options)
  const batches = checkMade('batching', batching.name, batching.create(ofBatching), 'plan')
  const orders = checkMade('order', order.name, order.create(ofOrder), 'next')
  return { name, options: { ...ofBatching, ...ofOrder }, ...joined(batches, orders) }
}

function joined(batching: Batching, order: Order): Omit<SchedulerPolicy, 'name' | 'options'> {
  const groups = new StepGroups()
  /** Whether a request with a step group was ever seen; usually there is none. */
  let areInGroups = false
  /** Whether it may admit in any step. */
  const canAdmit = batching.inGroups !== true
  return {
    plan(given) {
      const reject = synchronous(order.reject?.(given), 'reject') ?? []
      const canPreempt = given.freeSlots === 0 && canAdmit
      const victims = canPreempt ? (synchronous(order.preempt?.(given), 'preempt') ?? []) : []
      let state = victims.length === 0 ? given : withoutVictims(given, victims)
      // While nothing runs, slots are not held back.
      if (state.freeSlots > 0 && state.waiting.size > 0 && state.running.length > 0 && canAdmit) {
        const held = synchronous(order.hold?.(state), 'hold') ?? 0
        if (held > 0) state = { ...state, freeSlots: Math.max(0, state.freeSlots - held) }
      }
      let next = nextOf(order, state)
      if (reject.length > 0) next = without(next, new Set(reject.map(({ id }) => id)))
      const preempt = victims.map(({ id }) => id)
      if (areInGroups) return { preempt, reject, ...stepOf(batching, groups, state, next) }
      // The order is always read where a slot can be given, as orders may keep count of that.
      if (state.running.length === 0 || (canAdmit && state.freeSlots > 0)) {
        const rest = next[Symbol.iterator]()
        const first = rest.next()
        if (first.done === true) next = []
        else next = state.waiting.size === 1 ? [first.value] : begun(first.value, rest)
      }
      return { preempt, reject, ...synchronous(batching.plan(state, next), 'plan') }
    },
    arrivalRank: (request) => order.arrivalRank?.(request) ?? 0,
    victim: (state) => synchronous(order.victim?.(state), 'victim')?.id,
    observe(event) {
      if (event.type !== 'step') areInGroups ||= event.request.stepGroup !== undefined
      else if (areInGroups) groups.onStep(event)
      const told: unknown = batching.observe?.(event)
      const toldToo: unknown = order.observe?.(event)
      // An async `observe`, against the contract: the caller of this policy handles its rejection.
      const isAsync = told instanceof Promise || toldToo instanceof Promise
      return isAsync ? (Promise.all([told, toldToo]) as unknown as void) : undefined
    },
    learned: () => batching.learned?.(),
    recall: (learned) => batching.recall?.(learned),
    onServedElsewhere: (services) => order.onServedElsewhere?.(services),
  }
}

/** @throws TypeError if an order returns something that is not iterable */
export function nextOf(order: Order, state: SchedulerState): Iterable<SequenceView> {
  const next = synchronous(order.next(state), 'next')
  if (typeof next?.[Symbol.iterator] === 'function') return next
  const came = next === null ? 'null' : typeof next
  throw new TypeError(`next: expected an iterable of waiting requests, got ${came}`)
}

/** The step of the group whose turn it is; if its requests wait for others, the next group's. */
function stepOf(
  batching: Batching,
  groups: StepGroups,
  state: SchedulerState,
  next: Requests,
): Step {
  let first: Step | undefined
  for (const view of groups.views(state, next, batching.inGroups === true)) {
    const planned = synchronous(batching.plan(view.state, view.next), 'plan')
    const step = { ...planned, admit: view.withOthers(planned.admit) }
    groups.ran(view.group, step.run)
    if (step.run.length > 0) return step
    first ??= step
  }
  return first ?? { admit: [], run: [] }
}

/** The next requests, where the first one was read already. */
function* begun(first: SequenceView, rest: Iterator<SequenceView>): Requests {
  yield first
  for (let next = rest.next(); next.done !== true; next = rest.next()) yield next.value
}

function withoutVictims(state: SchedulerState, victims: readonly SequenceView[]): SchedulerState {
  const running = state.running.filter((request) => !victims.includes(request))
  return { ...state, running, freeSlots: state.freeSlots + victims.length }
}

function* without(requests: Requests, left: ReadonlySet<string>): Requests {
  for (const request of requests) if (!left.has(request.id)) yield request
}
