import type { Batching, Step, Order } from '../contracts/scheduling/other-policies.js'
import type { BatchingDefinition, OrderDefinition } from '../contracts/plugin.js'
import type {
  SchedulerPolicy,
  SchedulerState,
  SequenceView,
} from '../contracts/scheduling/scheduler-policy.js'
import { checkMade, parseOptions } from '../plugin/checks.js'
import { StepGroups } from './step-groups.js'

/**
 * A policy that is the product of two independent decisions: what a step computes and which request
 * is next. It is named `batching+order`, such as `adaptive+fcfs`, and has the options of both.
 *
 * @throws `invalid_policy` for an option that neither has, or a wrong value
 */
export function composePolicy(
  batching: BatchingDefinition,
  order: OrderDefinition,
  options: Readonly<Record<string, unknown>> = {},
): SchedulerPolicy {
  const name = `${batching.name}+${order.name}`
  const [ofBatching, ofOrder] = parseOptions(name, [batching, order], options)
  return {
    name,
    options: { ...ofBatching, ...ofOrder },
    ...joined(
      checkMade('batching', batching.name, batching.create(ofBatching), 'plan'),
      checkMade('order', order.name, order.create(ofOrder), 'next'),
    ),
  }
}

function joined(batching: Batching, order: Order): Omit<SchedulerPolicy, 'name' | 'options'> {
  const groups = new StepGroups()
  /** Whether a request was ever of a step group: most often none is. */
  let areInGroups = false
  /** Whether it may admit in any step. */
  const canAdmit = batching.inGroups !== true
  return {
    plan(given) {
      const reject = synchronous(order.reject?.(given), 'reject') ?? []
      const canPreempt = given.freeSlots === 0 && canAdmit
      const victims = canPreempt ? (synchronous(order.preempt?.(given), 'preempt') ?? []) : []
      let state = victims.length === 0 ? given : withoutVictims(given, victims)
      // While nothing runs, no slot is worth keeping.
      if (state.freeSlots > 0 && state.waiting.size > 0 && state.running.length > 0 && canAdmit) {
        const held = synchronous(order.hold?.(state), 'hold') ?? 0
        if (held > 0) state = { ...state, freeSlots: Math.max(0, state.freeSlots - held) }
      }
      let next = synchronous(order.next(state), 'next')
      if (reject.length > 0) next = without(next, new Set(reject.map(({ id }) => id)))
      const preempt = victims.map(({ id }) => id)
      if (areInGroups) return { preempt, reject, ...stepOf(batching, groups, state, next) }
      // An order counts from when it is asked, so it always is where a slot may be given.
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
      // One that is async after all: who asked this policy takes care of its rejection.
      const isAsync = told instanceof Promise || toldToo instanceof Promise
      return isAsync ? (Promise.all([told, toldToo]) as unknown as void) : undefined
    },
    learned: () => batching.learned?.(),
    recall: (learned) => batching.recall?.(learned),
    onServedElsewhere: (services) => order.onServedElsewhere?.(services),
  }
}

/** The step of the group whose turn it is; where its requests wait for others, of the next one. */
function stepOf(
  batching: Batching,
  groups: StepGroups,
  state: SchedulerState,
  next: Iterable<SequenceView>,
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

/** What is next, the first of it read already. */
function* begun(first: SequenceView, rest: Iterator<SequenceView>): Iterable<SequenceView> {
  yield first
  for (let next = rest.next(); next.done !== true; next = rest.next()) yield next.value
}

function withoutVictims(state: SchedulerState, victims: readonly SequenceView[]): SchedulerState {
  const running = state.running.filter((request) => !victims.includes(request))
  return { ...state, running, freeSlots: state.freeSlots + victims.length }
}

function* without(
  requests: Iterable<SequenceView>,
  left: ReadonlySet<string>,
): Iterable<SequenceView> {
  for (const request of requests) if (!left.has(request.id)) yield request
}

/**
 * What a method of a plug-in returned, which is not to be a promise. The rejection of a promise that
 * nobody waits for would end the process.
 *
 * @throws TypeError that names the method
 */
export function synchronous<T>(result: T, method: string): T {
  if (!(result instanceof Promise)) return result
  result.catch(() => {})
  throw new TypeError(`${method} returned a promise: it is synchronous`)
}
