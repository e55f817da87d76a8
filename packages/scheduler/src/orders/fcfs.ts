import { defineOrder } from '@cllm/core'

/**
 * First come, first served; requests that have begun (they were preempted, or lost their engine) before new
 * ones. No request is ever overtaken: the bound is 0 tokens.
 */
export const fcfs = defineOrder({
  name: 'fcfs',
  doc: 'First come, first served.',
  create: () => ({ next: (state) => state.waiting }),
})
