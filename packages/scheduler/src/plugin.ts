import { definePlugin } from '@cllm/core'
import { createPolicy, policyNames } from './policies.js'

/** Registers every built-in policy by its name, such as `adaptive+fcfs`. */
export const schedulerPlugin = definePlugin({
  name: '@cllm/scheduler',
  apiVersion: 1,
  register(host) {
    for (const name of policyNames) {
      host.registerPolicy(name, (options) => createPolicy(name, options))
    }
  },
})
