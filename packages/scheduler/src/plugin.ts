import { definePlugin } from '@cllm/core'
import { batchings, orders } from './policies.js'
import { routers } from './routers/routers.js'

/**
 * Registers every built-in batching and order, and so every policy that two of them make, and every
 * built-in router.
 */
export const schedulerPlugin = definePlugin({
  name: '@cllm/scheduler',
  apiVersion: 1,
  register(host) {
    for (const batching of batchings) host.registerBatching(batching)
    for (const order of orders) host.registerOrder(order)
    for (const router of routers) host.registerRouter(router)
  },
})
