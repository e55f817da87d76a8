import { definePlugin } from '@cllm/core'
import { modelSchedulers } from './model-schedulers.js'
import { batchings, orders } from './policies.js'
import { routers } from './routers/routers.js'

/**
 * Registers every built-in batching and order, and so every policy that two of them make, every built-in router and
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
