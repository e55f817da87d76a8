import { definePlugin } from '@cllm/core/portable'
import { batchings, orders } from './policies.js'

/** Registers every built-in batching and order, and so every policy that two of them make. */
export const schedulerPlugin = definePlugin({
  name: '@cllm/scheduler',
  apiVersion: 1,
  register(host) {
    for (const batching of batchings) host.registerBatching(batching)
    for (const order of orders) host.registerOrder(order)
  },
})
