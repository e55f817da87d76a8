import type { BatchingDefinition, OrderDefinition, SchedulerPolicy, RouterPolicy } from '@cllm/core'
import { PluginRegistry, definePlugin } from '@cllm/core'
import { adaptive } from './batchings/adaptive/adaptive.js'
import { chunked, continuous, staticBatching, window } from './batchings/fixed.js'
import { modelSchedulers } from './model-schedulers.js'
import { agents, mlfq } from './orders/by-service.js'
import { dlpm, fair } from './orders/by-tenant.js'
import { edf, priority } from './orders/by-urgency.js'
import { fcfs, random, hrrn, sjf, lpm } from './orders/plain.js'
import { routers } from './routers/routers.js'

/** The built-in batchings. */
export const batchings: readonly BatchingDefinition[] = [
  staticBatching,
  window,
  continuous,
  chunked,
  adaptive,
]

/** The built-in orders. */
export const orders: readonly OrderDefinition[] = [
  fcfs,
  priority,
  sjf,
  hrrn,
  lpm,
  fair,
  dlpm,
  edf,
  mlfq,
  agents,
  random,
]

/** The names of the built-in batchings. */
export const batchingNames: readonly string[] = batchings.map(({ name }) => name)

/** The names of the built-in orders. */
export const orderNames: readonly string[] = orders.map(({ name }) => name)

/** The built-in policies, `batching+order`: every batching with every order. */
export const policyNames: readonly string[] = batchingNames.flatMap((batching) =>
  orderNames.map((order) => `${batching}+${order}`),
)

/**
 * Registers every built-in batching and order, and with them every policy `batching+order`, and every built-in router and
 * model scheduler.
 */
export const schedulerPlugin = definePlugin({
  name: '@cllm/scheduler',
  apiVersion: 1,
  register(host) {
    for (const batching of batchings) host.registerBatching(batching)
    for (const order of orders) host.registerOrder(order)
    for (const router of routers) host.registerRouter(router)
    for (const one of modelSchedulers) host.registerModelScheduler(one)
  },
})

const builtIn = new PluginRegistry()
void schedulerPlugin.register(builtIn, {})

/** The default policy of a server. */
export const defaultPolicyName = 'adaptive+fcfs'

/** Makes the policy that takes over from one that fails: the simplest one that starves no request. */
export const fallbackPolicy = (): SchedulerPolicy => createPolicy('chunked+fcfs')

/**
 * Makes a built-in policy by its name.
 *
 * @param name - `batching+order`, one of {@link policyNames}
 * @param options - options of the batching and the order together, such as `{ tokenBudget: 128 }`
 * @throws CllmError `invalid_policy` for an unknown name, an unknown option or a wrong value; its
 *   `details.valid` lists what would do
 */
export function createPolicy(
  name: string = defaultPolicyName,
  options: Readonly<Record<string, unknown>> = {},
): SchedulerPolicy {
  return builtIn.createPolicy(name, options)
}

/** The default router of a cluster. */
export const defaultRouterName = 'prefix-wait'

/**
 * Makes a built-in router by its name.
 *
 * @throws CllmError `invalid_configuration` for an unknown name, an unknown option or a wrong value
 */
export function createRouter(
  name: string = defaultRouterName,
  options: Readonly<Record<string, unknown>> = {},
): RouterPolicy {
  return builtIn.routers.create(name, options)
}
